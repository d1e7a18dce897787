"""Which fields of a site pollerd takes today: one table, so that opening one takes one line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pollerd.moving.moved import Fate, Moved, ReportLine
from pollerd.moving.plans import plan_of, windows_as_sites_have_them
from pollerd.texts import N_, _

FIELDS: dict[str, bool] = {
    "url": True,
    "tags": True,
    "paused": True,
    "min_interval": True,
    "max_interval": True,
    "headers": True,
    "credentials": True,
    "proxy": True,
    "pdf_password": True,
    "title": True,
    "note": False,
    "body": True,
    "render": True,
    "selections": True,
    "windows": True,
    "muted": False,
}
"""Field of a moved site -> whether the API takes it. Turn to True what it has learned to take."""
_NOT_YET = N_("pollerd does not take `{}` yet")


def sendable(moved: Moved) -> Moved:
    """Returns the sites with only those fields that pollerd takes; the report names what was left out, by site."""
    sites, report = list[dict[str, object]](), list(moved.report)
    for moved_site in moved.sites:
        site = dict(moved_site)
        url = str(site["url"])
        if site.pop("method", "GET") == "POST":
            site.setdefault("body", "")  # a body is what makes pollerd post
        if "render" in site:
            plan, lost = plan_of(_table(site.pop("browser", {})))
            site["render"] = plan or "browser"
            report += [ReportLine(url, "browser", Fate.NOT_CARRIED, why) for why in lost]
        if isinstance(windows := site.get("windows"), list):
            site["windows"] = windows_as_sites_have_them(windows)
        closed = [name for name in site if not FIELDS.get(name, False)]
        report += [ReportLine(url, name, Fate.NOT_CARRIED, _(_NOT_YET).format(name)) for name in closed]
        sites.append({name: value for name, value in site.items() if name not in closed})
    return replace(moved, sites=sites, report=report)


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
