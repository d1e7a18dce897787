// The slider of budgets: moves the line and says the sentence, from the table below the plot.

export function startSlider() {
  const slider = document.getElementById("budget-step");
  if (slider === null) return;
  const rows = [...document.querySelectorAll("#benefit-rows tbody tr")];
  const lines = document.querySelectorAll("#benefit .chosen"); // on desks, on phones
  const sentence = document.getElementById("benefit-sentence");
  const budget = document.getElementById("benefit-budget");
  slider.addEventListener("input", () => {
    const row = rows[Number(slider.value)];
    sentence.textContent = row.cells[2].textContent;
    slider.setAttribute("aria-valuetext", sentence.textContent);
    for (const [n, x] of row.dataset.x.split(",").entries())
      lines[n].setAttribute("d", lines[n].getAttribute("d").replace(/^M\d+/, `M${Number(x)}`));
    budget.value = row.dataset.budget;
  });
}
