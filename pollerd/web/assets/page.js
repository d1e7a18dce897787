// What every page does: times in the reader's zone, live events, keys; and what single pages add.
import { fillZones, noteZone, writeTimes } from "./times.js";
import { follow } from "./live.js";
import { listenForKeys } from "./keys.js";
import { startInbox } from "./inbox.js";
import { scriptUrl } from "./trusted.js";

for (const one of document.querySelectorAll(".no-script, .needs-script")) one.hidden = true;
writeTimes(document);
setInterval(() => writeTimes(document), 30_000);
fillZones();
noteZone();
listenForKeys();
const style = document.querySelector("link[rel=stylesheet]").getAttribute("href");
navigator.serviceWorker?.register(scriptUrl(`/service-worker.js?style=${style}`)).catch(() => {}); // not on plain HTTP
const code = document.getElementById("first-user-code");
if (code && location.hash.length > 1) code.value = location.hash.slice(1);
const inbox = startInbox();
if (!("visitor" in document.body.dataset)) {
  follow({ polls: document.querySelector("#ticker, [data-site]") !== null }, (type, data) => {
    if (type === "change") inbox.came(data);
    if (type === "polls") for (const poll of data.polls) show(poll);
    if (type === "polls") document.dispatchEvent(new CustomEvent("pollerd-polls", { detail: data }));
  });
}

/** Writes when a page on this screen was polled last. */
function show([site, at, outcome]) {
  for (const row of document.querySelectorAll(`[data-site="${Number(site)}"] [data-last]`)) {
    const time = document.createElement("time");
    time.dataset.short = "";
    time.dateTime = new Date(at * 1000).toISOString();
    row.replaceChildren(time);
    row.dataset.outcome = outcome;
    writeTimes(row);
  }
}
