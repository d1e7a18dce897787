"""Several jobs of one URL become one site with several selections: one request, a selection for each job."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pollerd.moving.draft import Draft
from pollerd.moving.moved import Moved, Report
from pollerd.texts import _

DEFAULT = "default"
_MAX_NAME = 40
_REQUEST = ("method", "body", "headers", "credentials")
"""Fields that decide which page comes: jobs that differ in them cannot be one site."""
_FIRST_WINS = ("proxy", "pdf_password", "note", "windows", "muted")


def join(drafts: Sequence[Draft], report: Report) -> Moved:
    """Returns a site for each URL, in order. Reports what the others of a URL lose to its first job."""
    groups: dict[str, list[Draft]] = {}
    for draft in drafts:
        if not draft.is_left_out:
            groups.setdefault(draft.url, []).append(draft)
    sites = [_site(group) for group in groups.values()]
    sources = [[draft.report.source for draft in group if not draft.is_left_out] for group in groups.values()]
    return Moved(sites, report.lines, sources, [draft.report.source for draft in drafts if draft.is_left_out])


def _site(group: list[Draft]) -> dict[str, object]:
    first, *others = group
    site: dict[str, object] = {"url": first.url, **first.fields}
    selections = {DEFAULT: first.selection()}
    for draft in others:
        different = [name for name in _REQUEST if draft.fields.get(name) != first.fields.get(name)]
        if different:
            why = _(
                "{source} has the same URL with another {different}: a site has one request",
                source=first.report.source,
                different=different[0],
            )
            draft.report.not_carried(_("the whole entry"), why)
            draft.is_left_out = True
            continue
        name = _free(draft.name or str(draft.fields.get("title", "")), selections)
        selections[name] = draft.selection()
        draft.report.approximated(
            "url", _('same URL as {source}: selection "{name}" of its site', source=first.report.source, name=name)
        )
        _merge(site, draft, first.report.source)
    if len(selections) > 1 or selections[DEFAULT]:
        site["selections"] = selections
    return site


def _merge(site: dict[str, object], draft: Draft, first: str) -> None:
    fields = draft.fields
    tags = [tag for field in (site, fields) for tag in _tags(field)]
    if tags:
        site["tags"] = list(dict.fromkeys(tags))
    for name in ("render", "browser"):
        if name in fields and name not in site:
            site[name] = fields[name]
            draft.report.approximated(name, _("now for all selections of {first}", first=first))
    for name in _FIRST_WINS:
        if name in fields and name not in site:
            site[name] = fields[name]
        elif name in fields and fields[name] != site[name]:
            draft.report.not_carried(name, _("{first} has another, and a site has one", first=first))
    for name in ("min_interval", "max_interval"):
        if name in fields:
            site[name] = min(_number(fields[name]), _number(site.get(name, fields[name])))
    if bool(fields.get("paused")) != bool(site.get("paused")):
        site["paused"] = False
        how = (
            _("{first} has the same URL and is not paused: the site is not", first=first)
            if fields.get("paused")
            else _("{first} has the same URL and is paused: the site is not", first=first)
        )
        draft.report.approximated("paused", how)


def _tags(fields: dict[str, object]) -> list[str]:
    tags = fields.get("tags")
    return tags if isinstance(tags, list) else []


def _number(value: object) -> float:
    return value if isinstance(value, int | float) else 0.0


def _free(text: str, taken: dict[str, dict[str, object]]) -> str:
    """Returns a name for a selection: small letters, digits and dashes, not taken yet."""
    base = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:_MAX_NAME].strip("-")
    number = len(taken) + 1
    if not base or base.isdecimal():
        base = f"selection-{base or number}"
    name = base
    while name in taken:
        name = f"{base}-{number}"
        number += 1
    return name
