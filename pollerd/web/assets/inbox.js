// The inbox: differences open in place, rows are seen by key or by scrolling past, new ones wait behind a button.
import { putFragment } from "./trusted.js";
import { writeTimes } from "./times.js";
import { option } from "./options.js";
import { _, n_ } from "./texts.js";

const SEEN_MS = 1_000;
const SEND_MS = 700;
const LINGER_MS = 30_000;

/** Returns what takes changes as they come; and acts for the keys, see keys.js. */
export function startInbox() {
  const form = document.getElementById("inbox");
  const button = document.getElementById("new-rows");
  const title = document.title.replace(/^\(.*?\) /, "");
  const filtered = new URLSearchParams(location.search);
  let came = 0;
  if (button) button.addEventListener("click", () => location.reload());
  if (form) new Inbox(form);
  return {
    came(change) {
      const [site, tag, q] = ["site", "tag", "q"].map((name) => filtered.get(name));
      if (button && ((site && Number(site) !== change.site_id) || tag || q)) return;
      came += 1;
      const unread = document.getElementById("unread");
      if (unread && change.matters && !unread.textContent.endsWith("+")) {
        unread.textContent = Number(unread.textContent.replace(/\D/g, "")) + 1;
        unread.hidden = false;
      }
      document.title = _("({count} new) {title}", { count: came, title });
      if (!button) return;
      button.hidden = false;
      button.textContent = n_("{count} new change · show (.)", "{count} new changes · show (.)", came);
    },
  };
}

class Inbox {
  constructor(form) {
    this.form = form;
    this.waiting = { seen: new Set(), unseen: new Set() };
    this.last = null;
    this.view = "inline";
    for (const row of form.querySelectorAll("[data-row]")) {
      if (row.matches(".group")) continue; // opens by itself
      row.querySelector("[data-open]").addEventListener("click", (event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return;
        event.preventDefault();
        this.toggle(row);
      });
    }
    form.addEventListener("pollerd-key", ({ detail }) => this.act(detail.key, detail.row));
    form.addEventListener("click", (event) => this.switchView(event));
    form.querySelector("#all-seen")?.addEventListener("click", (event) => {
      event.preventDefault();
      this.act("A", null);
    });
    if (option("scroll-seen", true)) this.watch();
    addEventListener("pagehide", () => this.send());
  }

  act(key, row) {
    if (key === "o" && row) this.toggle(row);
    if ((key === "m" || key === "M") && row) this.mark([row], !row.classList.contains("seen"));
    this.kept ||= key === "A"; // the server can undo it, too
    if (key === "A") this.mark([...this.form.querySelectorAll("[data-row]:not(.seen)")], true);
    if (key === "u" && this.last) this.mark(this.last.rows, !this.last.seen);
    if (key === "t") {
      this.view = this.view === "inline" ? "side" : "inline";
      if (row && this.place(row)?.hidden === false) this.fill(row);
    }
    if (key === "Escape" && row && this.place(row)) this.place(row).hidden = true;
  }

  place(row) {
    return row.querySelector(".diff-place");
  }

  async toggle(row) {
    const group = row.querySelector("details");
    if (group && row.matches(".group")) {
      group.open = !group.open;
      return;
    }
    const place = this.place(row);
    place.hidden = !place.hidden;
    if (!place.hidden) {
      await this.fill(row);
      this.mark([row], true);
    }
  }

  async fill(row) {
    const place = this.place(row);
    place.setAttribute("aria-busy", "true");
    try {
      await putFragment(place, `/changes/${Number(row.dataset.change)}?view=${this.view}`);
      writeTimes(place);
    } catch {
      place.textContent = _("Could not load the diff.");
    }
    place.removeAttribute("aria-busy");
  }

  switchView(event) {
    const link = event.target.closest("a[data-view]");
    const row = event.target.closest("[data-row]");
    if (!link || !row) return;
    event.preventDefault();
    this.view = link.dataset.view;
    this.fill(row);
  }

  mark(marked, seen) {
    const rows = [...new Set(marked.flatMap((row) => [row, ...row.querySelectorAll("[data-row]")]))]; // groups, too
    if (rows.length === 0) return;
    const changes = rows.filter((row) => row.dataset.change);
    for (const row of rows) row.classList.toggle("seen", seen);
    for (const { dataset } of changes) {
      const id = dataset.change;
      this.waiting[seen ? "seen" : "unseen"].add(id);
      this.waiting[seen ? "unseen" : "seen"].delete(id);
    }
    this.last = { rows, seen };
    const status = document.getElementById("status");
    status.textContent = seen
      ? n_("{count} change read · undo (u)", "{count} changes read · undo (u)", changes.length)
      : n_("{count} change unread · undo (u)", "{count} changes unread · undo (u)", changes.length);
    clearTimeout(this.linger);
    this.linger = setTimeout(() => status.replaceChildren(), LINGER_MS);
    clearTimeout(this.sending);
    this.sending = setTimeout(() => this.send(), SEND_MS);
  }

  send() {
    for (const [kind, ids] of Object.entries(this.waiting)) {
      if (ids.size === 0) continue;
      const body = new URLSearchParams([...ids].map((id) => ["id", id]));
      const csrf = this.form.querySelector("input[name=csrf]");
      if (csrf) body.set("csrf", csrf.value);
      if (kind === "unseen") body.set("unseen", "1");
      if (this.kept) body.set("kept", "1");
      ids.clear();
      fetch("/changes/seen", { method: "POST", body, headers: { "X-Fragment": "1" }, keepalive: true });
    }
    this.kept = false;
  }

  /** Rows that leave at the top of the window are seen, after a second. */
  watch() {
    const timers = new Map();
    const observer = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting, boundingClientRect } of entries) {
        clearTimeout(timers.get(target));
        if (isIntersecting || boundingClientRect.bottom > 0 || boundingClientRect.height === 0 || target.classList.contains("seen")) continue;
        timers.set(target, setTimeout(() => this.mark([target], true), SEEN_MS));
      }
    });
    for (const row of this.form.querySelectorAll("[data-row]")) observer.observe(row);
  }
}
