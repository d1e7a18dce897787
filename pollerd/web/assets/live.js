// One stream of events for all tabs of a browser: in a shared worker; else in the tab that holds a lock, which tells
// the others; else, where a browser has neither, a question every 15 s.
import { Latest } from "./latest.js";
import { scriptUrl } from "./trusted.js";
import { writeTimes } from "./times.js";
import { _, _parts, language } from "./texts.js";

const SILENT_MS = 10_000;
const ASK_MS = 15_000;
let brokenSince = null;
let health = null; // as it was said last
let newest = 0; // id of the newest change that this page shows, or that came since

/** Calls `came(type, data)` for events. wants.polls: whether this page shows polls as they happen. */
export function follow(wants, came) {
  newest = Number(document.body.dataset.newest);
  const hear = (message) => {
    if (message.type === "live") showLive(message.since);
    else {
      if (message.type === "change") {
        if (message.data.id <= newest) return; // it is on this page already
        newest = message.data.id;
      }
      if (message.type === "health") showHealth(message.data);
      came(message.type, message.data);
    }
  };
  const worker = document.body.dataset.worker;
  if (globalThis.SharedWorker) inWorker(worker, wants, hear);
  else if (navigator.locks && globalThis.BroadcastChannel) inLeader(wants, hear);
  else asking(hear);
  setInterval(() => showLive(brokenSince), 1_000);
}

function inWorker(url, wants, hear) {
  const { port } = new SharedWorker(scriptUrl(url), { type: "module", name: url });
  port.onmessage = ({ data }) => {
    if (data.type === "ping") port.postMessage({ type: "pong" });
    else hear(data);
  };
  const tell = () => port.postMessage({ type: "wants", polls: wants.polls && !document.hidden, after: newest });
  document.addEventListener("visibilitychange", tell);
  addEventListener("pagehide", () => port.postMessage({ type: "bye" }));
  addEventListener("pageshow", tell);
  tell();
}

function inLeader(wants, hear) {
  const channel = new BroadcastChannel("pollerd");
  const latest = new Latest(); // kept by each tab, because each may lead one day
  let stream = null; // of the tab that leads
  let polls = wants.polls; // whether any tab wants them
  const take = (message) => {
    latest.keep(message);
    hear(message);
  };
  channel.onmessage = ({ data }) => {
    if (data.type !== "wants") take(data);
    else if (stream !== null) {
      polls ||= data.polls;
      stream.want(polls);
      for (const message of latest.after(data.after)) channel.postMessage(message);
    }
  };
  navigator.locks.request("pollerd-live", async () => {
    const { Stream } = await import("./stream.js");
    stream = new Stream((message) => {
      channel.postMessage(message);
      take(message);
    }, newest);
    stream.want(polls);
    await new Promise(() => {}); // until this tab is closed
  });
  channel.postMessage({ type: "wants", polls, after: newest });
}

function asking(hear) {
  const ask = async () => {
    if (document.hidden) return;
    try {
      const answer = await fetch("/live/state");
      if (!answer.ok) throw new Error(`${answer.status}`);
      hear({ type: "health", data: await answer.json() });
      hear({ type: "live", since: null });
    } catch {
      hear({ type: "live", since: brokenSince ?? Date.now() });
    }
  };
  ask();
  setInterval(ask, ASK_MS);
}

function showLive(since) {
  brokenSince = since;
  const banner = document.getElementById("not-live");
  const broken = since !== null && Date.now() - since > SILENT_MS;
  if (broken && banner.hidden) {
    const time = document.createElement("time");
    time.dateTime = new Date(since).toISOString();
    banner.replaceChildren(..._parts("Connection lost at {time}. Reconnecting…", { time }));
    writeTimes(banner);
  }
  if (banner.hidden === broken) {
    banner.hidden = !broken;
    if (broken) say(`▲ ${_("cannot be reached")}`, "bad");
    else if (health !== null) showHealth(health);
  }
}

function say(text, state) {
  const place = document.getElementById("health");
  if (place.textContent.trim() !== text) place.textContent = text;
  place.dataset.state = state;
}

const figure = (value) => value.toLocaleString(language, value < 10 ? { maximumSignificantDigits: 2 } : { maximumFractionDigits: 0 });

function showHealth(data) {
  health = data;
  const inUse = [
    [1, (values) => _("{rate}/{budget} checks per second", values)],
    [60, (values) => _("{rate}/{budget} checks per minute", values)],
    [3_600, (values) => _("{rate}/{budget} checks per hour", values)],
    [86_400, (values) => _("{rate}/{budget} checks per day", values)],
  ]; // as `in_use` of words.py
  const [seconds, inWords] = inUse.find(([length]) => data.budget * length >= 1) ?? inUse[3];
  const speed = inWords({ rate: figure(data.rate * seconds), budget: figure(data.budget * seconds) });
  const text = data.database
    ? `▲ ${_("database: {reason}", { reason: data.database })}`
    : data.offline ? `▲ ${_("no internet connection")}` : `✓ ${_("all well")} · ${speed}`;
  if (document.getElementById("not-live").hidden) say(text, data.polling ? "fine" : "bad");
  const icon = document.querySelector("link[rel=icon]");
  const wanted = icon.href.replace(/icon(-alert)?\.svg$/, data.polling ? "icon.svg" : "icon-alert.svg");
  if (icon.href !== wanted) icon.href = wanted;
  const used = document.getElementById("used");
  if (used) {
    const share = Math.min(data.rate / data.budget, 1); // a moment's rate may be above it, the budget never is
    used.textContent = `${Math.round(100 * share)} %`;
    document.getElementById("used-meter").value = share;
  }
  if (data.build && !document.body.dataset.worker.includes(data.build)) {
    const link = document.createElement("a");
    link.href = location.href;
    link.textContent = _("reload the page");
    document.getElementById("status").replaceChildren(..._parts("pollerd was updated: {link}", { link }));
  }
}
