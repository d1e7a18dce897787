// page.js, and what only pages with forms and plots need: the others load less.
import {} from "./page.js";
import { startSlider } from "./slider.js";
import { startTicker } from "./ticker.js";
import { startSelection } from "./selection.js";
import { followJob } from "./job.js";
import { startPreview, startTrying } from "./preview.js";
import { startTabs } from "./tabs.js";
import { startWeek } from "./week.js";

startSlider();
startSelection();
startPreview();
startTrying();
startTabs();
startWeek();
followJob();
const ticker = startTicker();
if (ticker !== null) document.addEventListener("pollerd-polls", ({ detail }) => ticker.came(detail));
