// The keys of all pages: as in mail and feed readers. None works in fields, or with Ctrl, Alt or Meta.
import { option, setOption } from "./options.js";

const PAGES = { o: "/", c: "/changes", s: "/sites", r: "/rules", k: "/collection", b: "/budget", y: "/system" };
const CHORD_MS = 1_500;

export function listenForKeys() {
  const dialog = document.getElementById("keys");
  const on = document.getElementById("keys-on");
  const button = document.getElementById("show-keys");
  on.checked = option("keys", true);
  on.addEventListener("change", () => setOption("keys", on.checked));
  button.hidden = false;
  button.addEventListener("click", () => dialog.showModal());
  let chordUntil = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.defaultPrevented) return;
    if (event.target.closest("input, select, textarea, dialog") || !on.checked) return;
    if (Date.now() < chordUntil && PAGES[event.key]) {
      location.href = PAGES[event.key];
      return;
    }
    chordUntil = event.key === "g" ? Date.now() + CHORD_MS : 0;
    if (press(event.key, event, dialog)) event.preventDefault();
  });
}

/** Does what a key says; returns whether it says something here. */
function press(key, event, dialog) {
  const rows = [...document.querySelectorAll("[data-row]")].filter((row) => row.offsetParent !== null);
  const row = document.activeElement?.closest("[data-row]") ?? null;
  if (key === "?") dialog.showModal();
  else if (key === "/") document.querySelector("[data-search]")?.focus();
  else if (key === "j" || key === "n") move(rows, row, 1);
  else if (key === "k" || key === "p") move(rows, row, -1);
  else if (key === "v") (row ?? document).querySelector("[data-original]")?.click();
  else if (key === "x" && row) row.querySelector("input[type=checkbox]")?.click();
  else if (key === ".") document.querySelector("[data-keyed='.']:not([hidden])")?.click();
  else if (key === "P" || key === "e") document.querySelector(`[data-key="${key}"]`)?.click();
  else if (key === "h") document.querySelector("a[rel=prev]")?.click();
  else if (key === "l") document.querySelector("a[rel=next]")?.click();
  else if (key === "#") document.querySelector("#bulk button[value=delete]:not(:disabled)")?.click();
  else if (key === "Enter" || key === "o") return open(event, row);
  else if ("mMAut".includes(key) || key === "Escape") {
    tell(key, row);
    if (key === "m") move(rows, row, 1);
    if (key === "M") move(rows, row, -1);
  } else return false;
  return true;
}

function open(event, row) {
  if (row === null || (event.key === "Enter" && event.target !== row)) return false;
  if (row.querySelector("[data-open]")) tell("o", row);
  else row.querySelector("a.page")?.click();
  return true;
}

function tell(key, row) {
  document.getElementById("inbox")?.dispatchEvent(new CustomEvent("pollerd-key", { detail: { key, row } }));
}

/** Moves the focus to the next row; a screen reader hears which of how many it is. */
function move(rows, row, step) {
  const at = row === null ? (step > 0 ? 0 : rows.length - 1) : rows.indexOf(row) + step;
  const next = rows[at];
  if (!next) return;
  for (const one of rows) one.tabIndex = -1;
  next.tabIndex = 0;
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}
