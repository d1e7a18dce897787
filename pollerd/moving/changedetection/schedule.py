"""Intervals and hours of a watch: its own, or the settings' where it says so."""

from __future__ import annotations

import re

from pollerd.moving.changedetection.groups import WatchGroups
from pollerd.moving.changedetection.instance import Item, table
from pollerd.moving.changedetection.settings import Settings
from pollerd.moving.draft import Draft
from pollerd.texts import _

_SECONDS = {"weeks": 604_800, "days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}
STOCK_SECONDS = 3 * 3_600
"""The default that an installation begins with: nobody chose it."""
_MAX_SECONDS = 1e9
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_DAY_MINUTES = 24 * 60
_TIME = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")


def apply(draft: Draft, fields: Item, groups: WatchGroups, settings: Settings) -> None:
    """Sets the interval, as shortest and longest, and the windows."""
    use_default = bool(fields.pop("time_between_check_use_default", True))
    own = fields.pop("time_between_check", None)
    _set_interval(draft, table(settings.interval if use_default else own), use_default)
    if use_default:
        draft.report.nothing_said("time_between_check", _("the default counts"))
        draft.report.carried("time_between_check_use_default")
    else:
        draft.report.nothing_said("time_between_check_use_default")
    limit = table(fields.pop("time_schedule_limit", None))
    _set_windows(draft, settings.windows if use_default else limit, settings, own=not use_default)
    if use_default:
        draft.report.nothing_said("time_schedule_limit", _("the settings' count"))


def _set_interval(draft: Draft, interval: Item, use_default: bool) -> None:
    key = "settings.time_between_check" if use_default else "time_between_check"
    seconds = float(sum(_whole(interval.get(unit)) * size for unit, size in _SECONDS.items()))
    if use_default and seconds in (0, STOCK_SECONDS):
        draft.report.approximated(key, _("the default interval is not set: pollerd learns how often to poll"))
    elif 0 < seconds <= _MAX_SECONDS:
        draft.fields["min_interval"] = draft.fields["max_interval"] = seconds
        draft.report.carried(key)
    else:
        draft.report.not_carried(key, _("says no time, or more than 31 years: pollerd learns how often to poll"))


def _whole(value: object) -> int:
    text = str(value).strip()
    return int(text) if text.isdecimal() and len(text) < 12 else 0


def _set_windows(draft: Draft, limit: Item, settings: Settings, *, own: bool) -> None:
    key = "time_schedule_limit" if own else "settings.time_schedule_limit"
    if not limit.get("enabled"):
        if own:
            draft.report.nothing_said(key)
        return
    zone = str(limit.get("timezone") or settings.zone or "").strip()
    windows = [window for day in _DAYS for window in _window(draft, key, day, table(limit.get(day)))]
    if not zone:
        draft.report.not_carried(key, _("no time zone is known for its hours (UTC there): set windows by hand"))
    elif not windows:
        draft.report.not_carried(key, _("allows no hours at all: the site is paused"))
        draft.fields["paused"] = True
    else:
        draft.fields["windows"] = [{**window, "zone": zone} for window in _grouped(windows)]
        draft.report.carried(key)


def _window(draft: Draft, key: str, day: str, item: Item) -> list[Item]:
    """Returns the window of a day, none where it is closed."""
    if not item.get("enabled"):
        return []
    start, duration = _TIME.fullmatch(str(item.get("start_time", "")).strip()), table(item.get("duration"))
    minutes = _whole(duration.get("hours")) * 60 + _whole(duration.get("minutes"))
    if start is None or not minutes:
        draft.report.not_carried(f"{key}.{day}", _("its start or its duration cannot be read: closed on that day"))
        return []
    begin = int(start[1]) * 60 + int(start[2])
    if minutes >= _DAY_MINUTES and begin == 0:
        return [{"days": [day[:3]], "from": "00:00", "to": "24:00"}]
    end = begin + min(minutes, _DAY_MINUTES)
    if end > _DAY_MINUTES:
        draft.report.approximated(f"{key}.{day}", _("goes on after midnight here, as it is meant; there it ends at it"))
        end -= _DAY_MINUTES
    return [{"days": [day[:3]], "from": _clock(begin), "to": _clock(end)}]


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


def _grouped(windows: list[Item]) -> list[Item]:
    """Puts days with the same hours together."""
    days: dict[tuple[object, object], list[object]] = {}
    for window in windows:
        names = window["days"]
        days.setdefault((window["from"], window["to"]), []).extend(names if isinstance(names, list) else [])
    return [{"days": names, "from": start, "to": end} for (start, end), names in days.items()]
