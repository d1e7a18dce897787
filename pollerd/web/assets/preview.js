// What the selections would keep, half a second after typing ends.
import { putFragment } from "./trusted.js";

const WAIT_MS = 500;

export function startPreview() {
  const form = document.querySelector("form[data-preview]");
  if (form === null) return;
  const place = document.getElementById("preview");
  const text = form.elements.namedItem("selections");
  let timer = null;
  const show = async () => {
    const body = new URLSearchParams(new FormData(form));
    body.set("preview", "1");
    place.setAttribute("aria-busy", "true");
    try {
      await putFragment(place, form.action, { method: "POST", body });
    } catch {
      place.textContent = "That cannot be shown now.";
    }
    place.removeAttribute("aria-busy");
  };
  text.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(show, WAIT_MS);
  });
  form.querySelector("button[name=preview]").addEventListener("click", (event) => {
    event.preventDefault();
    show();
  });
}
