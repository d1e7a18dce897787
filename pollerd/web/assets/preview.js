// What the fields of a form would keep: by its button, and half a second after typing ends once the page was read.
// Rows: one more is a copy of the last one, emptied. The lines of the page are one stop of Tab: arrows move between them.
import { putFragment } from "./trusted.js";
import { _ } from "./texts.js";

const WAIT_MS = 500;

export function startPreview() {
  const form = document.querySelector("form[data-preview]");
  if (form === null) return;
  const place = document.getElementById("preview");
  let timer = null;
  let wasRead = place.querySelector("section") !== null;
  const show = async (pressed = { preview: "1" }) => {
    const body = new URLSearchParams(new FormData(form));
    for (const [button, value] of Object.entries(pressed)) body.set(button, value);
    place.setAttribute("aria-busy", "true");
    try {
      await putFragment(place, form.action, { method: "POST", body });
      wasRead = place.querySelector("section") !== null;
    } catch {
      place.textContent = _("Preview failed. Try again.");
    }
    place.removeAttribute("aria-busy");
  };
  const offer = async (picked) => {
    clearTimeout(timer);
    await show(picked);
    place.scrollIntoView({ block: "nearest" });
    place.querySelector("button")?.focus({ preventScroll: true });
  };
  form.addEventListener("input", () => {
    clearTimeout(timer);
    if (wasRead) timer = setTimeout(() => show(), WAIT_MS);
  });
  for (const button of form.querySelectorAll("button[name=preview]")) {
    button.addEventListener("click", (event) => {
      event.preventDefault();
      show();
    });
  }
  moveByArrows([...document.querySelectorAll(".drawn button[name=pick]")]);
  document.querySelector(".drawn")?.addEventListener("click", async (event) => {
    const line = event.target.closest("button[name=pick]");
    if (line === null) return;
    event.preventDefault();
    await offer({ pick: line.value });
  });
  document.querySelector(".pictured input")?.addEventListener("click", async (event) => {
    event.preventDefault();
    await offer({ "at.x": event.offsetX, "at.y": event.offsetY });
  });
  for (const button of form.querySelectorAll("button[name=add]")) {
    button.addEventListener("click", (event) => {
      event.preventDefault();
      addRow(button.parentElement.querySelector(".rows"));
    });
  }
}

/** Tries how a page is fetched with the fields as they are: what was typed stays, also secrets, which the server never shows. */
export function startTrying() {
  const form = document.querySelector("form[data-try]");
  const button = form?.querySelector("button[name=try]");
  button?.addEventListener("click", async (event) => {
    event.preventDefault();
    const place = document.getElementById("tried");
    const body = new URLSearchParams(new FormData(form));
    body.set("try", "1");
    place.setAttribute("aria-busy", "true");
    button.disabled = true;
    try {
      await putFragment(place, form.getAttribute("action"), { method: "POST", body });
    } catch {
      place.textContent = _("Preview failed. Try again.");
    }
    button.disabled = false;
    place.removeAttribute("aria-busy");
    place.scrollIntoView({ block: "nearest" });
  });
}

function moveByArrows(lines) {
  for (const [at, line] of lines.entries()) {
    line.tabIndex = at === 0 ? 0 : -1;
    line.addEventListener("focus", () => {
      for (const one of lines) if (one !== line && one.tabIndex === 0) one.tabIndex = -1;
      line.tabIndex = 0;
    });
    line.addEventListener("keydown", (event) => {
      const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: lines.length - 1 }[event.key];
      if (!lines[next]) return;
      event.preventDefault();
      lines[next].focus();
    });
  }
}

function addRow(list) {
  const row = list.lastElementChild.cloneNode(true);
  for (const field of row.querySelectorAll("input")) field.value = "";
  for (const field of row.querySelectorAll("label[hidden]")) field.hidden = false;
  for (const field of row.querySelectorAll(".wrong")) field.remove();
  list.append(row);
  row.querySelector("input:not([type=hidden]), select").focus();
}
