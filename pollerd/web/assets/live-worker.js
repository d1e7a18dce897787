// The shared worker: holds the one stream of this browser and tells all tabs.
import { Latest } from "./latest.js";
import { Stream } from "./stream.js";

const PING_MS = 20_000;
const tabs = new Map(); // port -> {polls, heard, after: id of the newest change that it knows}
const latest = new Latest();
let stream = null;

function tell(message) {
  latest.keep(message);
  for (const [port, tab] of tabs) if (message.type !== "polls" || tab.polls) post(port, tab, message);
}

/** Passes a message on; a change only once, and not to a tab whose page shows it already. */
function post(port, tab, message) {
  if (message.type === "change") {
    if (message.data.id <= tab.after) return;
    tab.after = message.data.id;
  }
  port.postMessage(message);
}

/** Opens, changes or closes the stream as the tabs want. */
function settle() {
  if (tabs.size === 0) stream?.close();
  else stream?.want([...tabs.values()].some((tab) => tab.polls));
}

onconnect = ({ ports: [port] }) => {
  port.onmessage = ({ data }) => {
    if (data.type === "bye") tabs.delete(port);
    else {
      const tab = tabs.get(port) ?? { polls: false, after: data.after ?? 0 };
      tab.heard = Date.now();
      if (data.type === "wants") {
        tab.polls = data.polls;
        stream ??= new Stream(tell, data.after);
        for (const message of latest.after(tab.after)) post(port, tab, message);
      }
      tabs.set(port, tab);
    }
    settle();
  };
};

setInterval(() => {
  for (const [port, tab] of tabs) {
    if (Date.now() - tab.heard > 3 * PING_MS) tabs.delete(port);
    else port.postMessage({ type: "ping" });
  }
  settle();
}, PING_MS);
