// A week to paint: hours are boxes; a drag paints as its first one was, arrows go from box to box, with Shift they paint.

export function startWeek() {
  const week = document.querySelector(".week");
  if (week === null) return;
  const boxes = [...week.querySelectorAll("input")];
  const said = document.getElementById("week-hours");
  let paint = null;
  const put = (box) => {
    if (paint === null || box.checked === paint) return;
    box.checked = paint;
    box.dispatchEvent(new Event("input", { bubbles: true }));
  };
  const say = () => {
    const count = boxes.filter((box) => box.checked).length;
    said.textContent = count === 0 ? said.dataset.none : said.dataset.some.replace("{}", count);
  };
  week.addEventListener("input", say);
  week.addEventListener("pointerdown", (event) => {
    if (!boxes.includes(event.target) || event.pointerType !== "mouse" || event.button !== 0) return;
    paint = !event.target.checked;
    put(event.target);
  });
  week.addEventListener("pointerover", (event) => {
    if (boxes.includes(event.target)) put(event.target);
  });
  // The first box is painted already: the click that ends the press would take that back.
  week.addEventListener("click", (event) => {
    if (boxes.includes(event.target) && event.pointerType === "mouse") event.preventDefault();
  });
  for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => (paint = null));
  week.addEventListener("keydown", (event) => {
    const at = boxes.indexOf(event.target);
    const isByDay = getComputedStyle(week).gridAutoFlow.startsWith("column"); // on phones days are columns
    const [along, across] = isByDay ? [24, 1] : [1, 24];
    const step = { ArrowRight: along, ArrowLeft: -along, ArrowDown: across, ArrowUp: -across }[event.key];
    const next = boxes[at + step];
    if (at < 0 || !step) return;
    event.preventDefault();
    if (!next || (Math.abs(step) === 1 && Math.floor(at / 24) !== Math.floor((at + step) / 24))) return;
    next.focus();
    paint = event.shiftKey ? boxes[at].checked : null;
    put(next);
    paint = null;
  });
  say();
}
