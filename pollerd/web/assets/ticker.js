// Polls as they happen: at most 60 rows, the newest first; may be paused.
import { _, language, n_ } from "./texts.js";

const ROWS = 60;
const SHOWN = {
  changed: _("● changed"), same: _("= no change"), failed: _("✕ failed"), proving: _("○ awaiting confirmation"),
};

/** Returns what takes `polls` events; null where the page shows none. */
export function startTicker() {
  const place = document.getElementById("ticker");
  if (place === null) return null;
  const list = place.querySelector("ol");
  const button = document.getElementById("ticker-pause");
  let paused = false;
  button.hidden = false;
  button.addEventListener("click", () => {
    paused = !paused;
    button.textContent = paused ? _("Resume") : _("Pause");
  });
  return {
    came({ polls, skipped }) {
      if (paused || document.hidden) return;
      for (const poll of polls) list.prepend(row(poll));
      if (skipped) list.prepend(note(n_("and {count} more", "and {count} more", skipped)));
      while (list.children.length > ROWS) list.lastElementChild.remove();
    },
  };
}

function row([site, at, outcome, ms, place, title]) {
  const item = document.createElement("li");
  const sign = document.createElement("span");
  sign.className = outcome === "same" ? "second" : outcome;
  sign.textContent = SHOWN[outcome] ?? outcome;
  const link = document.createElement("a");
  link.href = `/sites/${Number(site)}`;
  link.textContent = title || place;
  link.title = place;
  link.dir = "auto";
  item.append(new Date(at * 1000).toLocaleTimeString(language), " ", sign, ` ${ms.toLocaleString(language)} ms `, link);
  return item;
}

function note(text) {
  const item = document.createElement("li");
  item.className = "second";
  item.textContent = text;
  return item;
}
