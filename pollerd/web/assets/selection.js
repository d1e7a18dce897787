// Boxes of a list: how many are ticked, all at once, and buttons that wait for one.
import { _, n_ } from "./texts.js";

export function startSelection() {
  const form = document.getElementById("bulk");
  if (form === null) return;
  const boxes = [...form.querySelectorAll("input[name=id]")];
  const said = document.getElementById("selected-count");
  const all = document.createElement("input");
  all.type = "checkbox";
  all.setAttribute("aria-label", _("Select all on this page"));
  form.querySelector("thead th").append(all);
  const count = () => {
    const ticked = boxes.filter((box) => box.checked).length;
    form.querySelector(".bulk").hidden = ticked === 0 && !every();
    said.textContent = n_("{count} selected", "{count} selected", ticked);
    all.checked = ticked === boxes.length;
    all.indeterminate = ticked > 0 && ticked < boxes.length;
    for (const button of form.querySelectorAll("button[name=action]")) button.disabled = ticked === 0 && !every();
  };
  const every = () => form.querySelector("input[name=all]")?.checked ?? false;
  all.addEventListener("change", () => {
    for (const box of boxes) box.checked = all.checked;
    count();
  });
  form.addEventListener("change", count);
  count();
}
