// A job or an import that runs is asked for again, until it has ended.
import { putFragment } from "./trusted.js";
import { writeTimes } from "./times.js";

const ASK_MS = 1_000;

export function followJob() {
  const place = document.getElementById("job");
  if (place === null) return;
  const again = async () => {
    if (!["running", "undoing"].includes(place.querySelector("[data-state]")?.dataset.state)) return;
    try {
      await putFragment(place, place.dataset.url);
      writeTimes(place);
    } catch {
      // Asked again in a moment.
    }
    setTimeout(again, ASK_MS);
  };
  setTimeout(again, ASK_MS);
}
