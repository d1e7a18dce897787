"""What of a job decides which changes are told: filters on the difference, additions only, compared versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pollerd.moving.draft import Draft
from pollerd.moving.patterns import lacking
from pollerd.moving.urlwatch.filter_parts import as_mapping
from pollerd.texts import N_, _

SAFEGUARD = 0.25
"""webchanges shows all when no more than this part of a text is left."""
_SIGNS = {
    "additions": ("^[+]", "^\\+", "^[+].*", "^\\+.*"),
    "removals": ("^[-]", "^-", "^\\-", "^[-].*", "^-.*"),
}


def apply_diff_filters(draft: Draft, key: str, raw: object) -> None:
    """Filters on the lines of the difference: those that keep added or removed lines become conditions."""
    filters = raw if isinstance(raw, list) else [raw]
    for number, entry in enumerate(filters):
        if isinstance(entry, Mapping) and entry:
            kind, value = next(iter(entry.items()))
            _diff_filter(draft, f"{key}[{number}].{kind}", str(kind), as_mapping(str(kind), value))
        else:
            draft.report.not_carried(f"{key}[{number}]", _(_LOST))
    draft.report.approximated(key, _("filters on the difference are conditions here, where they can be"))


_LOST = N_("filters on the difference are carried over where they keep added or removed lines (grep), else not")


def _diff_filter(draft: Draft, key: str, kind: str, fields: Mapping[str, object]) -> None:
    pattern = fields.get("re", fields.get("text"))
    if kind not in ("grep", "keep_lines_containing") or not isinstance(pattern, str):
        draft.report.not_carried(key, _(_LOST))
        return
    for only, signs in _SIGNS.items():
        if pattern in signs:
            draft.conditions.append({"only": only})
            draft.report.carried(key)
            return
    for start, in_ in (("^[+]", "added"), ("^\\+", "added"), ("^[-]", "removed"), ("^-", "removed")):
        rest = pattern.removeprefix(start)
        if rest != pattern and lacking(f"^{rest}") is None:
            draft.conditions.append({"appears": {"re": f"^{rest}"}, "in": in_})
            draft.report.carried(key)
            return
    draft.report.not_carried(key, _(_LOST))


def additions_only(draft: Draft, key: str, value: object) -> None:
    """Only changes with added lines count; with webchanges' safeguard."""
    if value in (False, None):
        draft.report.nothing_said(key)
        return
    share = _share(value)
    if share is None and value != "disable_safeguard":
        draft.report.not_carried(key, _("must be true, a share from 0 to 1, or disable_safeguard"))
        return
    draft.conditions.append({"only": "additions", **({} if share is None else {"unless_left_below": share})})
    draft.report.carried(key)


def _share(value: object) -> float | None:
    if value is True:
        return SAFEGUARD
    text = str(value).strip()
    try:
        number = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        return None
    return number if 0 < number <= 1 else None


def deletions_only(draft: Draft, key: str, value: object) -> None:
    """Only changes with removed lines count."""
    if value in (False, None):
        draft.report.nothing_said(key)
        return
    draft.conditions.append({"only": "removals"})
    draft.report.carried(key)


def compared_versions(draft: Draft, key: str, value: object) -> None:
    """A content that is among the last versions is no change."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        draft.report.not_carried(key, _("must be a whole number above 0"))
    elif value == 1:
        draft.report.nothing_said(key)
    else:
        draft.conditions.append({"new_in": min(value, 10_000)})
        draft.report.carried(key)


def differ(draft: Draft, key: str, value: object) -> None:
    """How a difference is shown; some kinds also decide what is a difference."""
    name, options = _named(value)
    _DIFFERS.get(name, _display)(draft, key, options)


def _named(raw: object) -> tuple[str, dict[str, object]]:
    """Returns (kind, options) of `unified`, `{name: unified, …}` or `{unified: {…}}`."""
    if isinstance(raw, str):
        return raw, {}
    if not isinstance(raw, Mapping) or not raw:
        return "", {}
    fields = {str(name): value for name, value in raw.items()}
    if "name" in fields:
        return str(fields.pop("name")), fields
    kind, options = next(iter(fields.items()))
    return kind, as_mapping("", options)


def _display(draft: Draft, key: str, options: dict[str, object]) -> None:
    draft.report.display(key)
    handlers = {"additions_only": additions_only, "deletions_only": deletions_only}
    for name, value in options.items():
        handlers.get(name, _display_key)(draft, f"{key}.{name}", value)


def _display_key(draft: Draft, key: str, value: object) -> None:
    draft.report.display(key)


def _deepdiff(draft: Draft, key: str, options: dict[str, object]) -> None:
    draft.report.approximated(key, _("the text is compared line by line, JSON written out with its keys sorted"))
    for name, value in options.items():
        place = f"{key}.{name}"
        if name == "ignore_order" and value:
            draft.add_step(place, {"sort": "text"})
            draft.report.approximated(place, _("lines are sorted"))
        elif name == "ignore_string_case" and value:
            draft.add_step(place, {"case": "ignore"})
            draft.report.carried(place)
        elif name in ("data_type", "compact"):
            draft.report.display(place)
        elif value:
            draft.report.not_carried(place, _("has no counterpart for a whole document; a value has a step"))
        else:
            draft.report.nothing_said(place)


def _lost(why: str) -> Callable[[Draft, str, dict[str, object]], None]:
    def handle(draft: Draft, key: str, options: dict[str, object]) -> None:
        draft.report.not_carried(key, why)
        for name in options:
            draft.report.not_carried(f"{key}.{name}", why)

    return handle


_DIFFERS = {
    "deepdiff": _deepdiff,
    "image": _lost(N_("pictures are not compared")),
    "ai_google": _lost(N_("no language model is asked")),
    "command": _lost(N_("pollerd starts no programs")),
    "wdiff": _display,
    "table": _display,
    "unified": _display,
}
