// The parts of a site's page: the style shows the one that the address names; this says so to screen readers.

export function startTabs() {
  const links = [...document.querySelectorAll(".tabs a[href^='#']")];
  if (links.length === 0) return;
  const mark = () => {
    const part = document.querySelector(".part:has(:target)") ?? document.querySelector(".part");
    for (const link of links) {
      if (part.querySelector(link.hash)) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  };
  addEventListener("hashchange", mark);
  mark();
}
