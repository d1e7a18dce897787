// Writes times in the reader's zone: "14:32, 6 min ago". The server wrote them in UTC.
import { language } from "./texts.js";

const clock = new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat(language, { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit" });
const whole = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "long" });
const ago = new Intl.RelativeTimeFormat(language, { numeric: "always", style: "long" });
const short = new Intl.RelativeTimeFormat(language, { numeric: "always", style: "short" });
const UNITS = [["day", 86_400], ["hour", 3_600], ["minute", 60], ["second", 1]];

/** Rewrites all times below `root`. */
export function writeTimes(root, now = Date.now()) {
  for (const one of root.querySelectorAll("time[datetime]")) {
    const at = new Date(one.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    const text = "short" in one.dataset ? relative(at, now, short) : words(at, now);
    if (one.textContent !== text) one.textContent = text;
    if (!one.title) one.title = `${whole.format(at)} · ${at.toISOString()}`;
  }
}

function relative(at, now, form) {
  const seconds = (at.getTime() - now) / 1000;
  const [unit, length] = UNITS.find(([, one]) => Math.abs(seconds) >= one) ?? UNITS[3];
  return form.format(Math.trunc(seconds / length), unit); // 36 hours ago was one day ago: it stands under Yesterday
}

function words(at, now) {
  const seconds = (at.getTime() - now) / 1000;
  const near = Math.abs(seconds) < 12 * 3600;
  return `${near ? clock.format(at) : day.format(at)}, ${relative(at, now, ago)}`;
}

/** Fills in the reader's time zone where a form asks for one and has none yet. */
export function fillZones() {
  for (const field of document.querySelectorAll("input[data-zone]")) field.value ||= Intl.DateTimeFormat().resolvedOptions().timeZone;
}

/** Notes the reader's time zone for the server, which puts changes under days. */
export function noteZone() {
  document.cookie = `pollerd-zone=${Intl.DateTimeFormat().resolvedOptions().timeZone}; path=/; max-age=31536000; samesite=lax`;
}
