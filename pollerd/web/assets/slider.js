// The slider of budgets: moves the line and says the sentence, from the table below the plot.

export function startSlider() {
  const slider = document.getElementById("budget-step");
  if (slider === null) return;
  const rows = [...document.querySelectorAll("#benefit-rows tbody tr")];
  const line = document.getElementById("benefit-line");
  const sentence = document.getElementById("benefit-sentence");
  const budget = document.getElementById("benefit-budget");
  slider.addEventListener("input", () => {
    const row = rows[Number(slider.value)];
    sentence.textContent = row.cells[2].textContent;
    slider.setAttribute("aria-valuetext", sentence.textContent);
    line.setAttribute("d", line.getAttribute("d").replace(/^M\d+/, `M${Number(row.dataset.x)}`));
    budget.value = row.dataset.budget;
  });
}
