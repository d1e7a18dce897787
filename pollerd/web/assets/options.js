// What a reader chose in this browser.

/** Returns whether an option is on. */
export function option(name, otherwise) {
  const kept = localStorage.getItem(`pollerd-${name}`);
  return kept === null ? otherwise : kept === "on";
}

/** Keeps whether an option is on. */
export function setOption(name, on) {
  localStorage.setItem(`pollerd-${name}`, on ? "on" : "off");
}
