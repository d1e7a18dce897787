"""Filters of a watch as steps of a selection, in the order in which they act there."""

from __future__ import annotations

from collections.abc import Callable

from pollerd.moving.changedetection.groups import WatchGroups
from pollerd.moving.changedetection.instance import Item
from pollerd.moving.changedetection.settings import Settings
from pollerd.moving.draft import Draft, Step
from pollerd.moving.patterns import escaped, lacking, of_slashes
from pollerd.moving.patterns import groups as groups_of
from pollerd.moving.selectors import css, css_lacking, jq_path, jsonpath, xpath_lacking
from pollerd.texts import _

Selector = dict[str, str]


def apply(draft: Draft, fields: Item, groups: WatchGroups, settings: Settings) -> None:
    """Adds the steps of a watch with those of its groups and the settings."""
    lists = {key: groups.joined(key, fields.pop(key, None)) for key in _LISTS}
    lists["subtractive_selectors"] = _distinct([*lists["subtractive_selectors"], *settings.remove])
    lists["ignore_text"] = _distinct([*lists["ignore_text"], *settings.ignore_text])
    for key, handle in _LISTS.items():
        if lists[key]:
            handle(draft, key, lists[key])
        else:
            draft.report.nothing_said(key)
    _apply_tracking(draft, fields)
    _apply_space(draft, fields, settings)
    for key, step in (("remove_duplicate_lines", {"unique": "all"}), ("sort_text_alphabetically", {"sort": "text"})):
        if fields.pop(key, False):
            draft.add_step(key, dict(step))
            draft.report.carried(key)
        else:
            draft.report.nothing_said(key)


def _distinct(texts: list[str]) -> list[str]:
    return list(dict.fromkeys(texts))


# --- elements --------------------------------------------------------------------------------------------------------


def _remove(draft: Draft, key: str, texts: list[str]) -> None:
    for number, text in enumerate(texts):
        place = f"{key}[{number}]"
        selector, wrong = removal_of(text)
        if selector is None:
            draft.report.not_carried(place, wrong)
        else:
            draft.add_step(place, {"remove": dict(selector)})
            draft.report.carried(place)
    draft.report.carried(key)


def _keep(draft: Draft, key: str, texts: list[str]) -> None:
    """All matches of all filters, filter by filter."""
    kept = list[Selector]()
    for number, text in enumerate(texts):
        selector, how = selector_of(text)
        if selector is None:
            draft.report.not_carried(f"{key}[{number}]", how)
            continue
        kept.append(selector)
        if how:
            draft.report.approximated(f"{key}[{number}]", how)
        else:
            draft.report.carried(f"{key}[{number}]")
    if kept:
        if all("jsonpath" in selector for selector in kept) and not draft.has_media:
            draft.add_step(key, {"as": "json"})
        draft.add_step(key, {"keep": dict(kept[0]) if len(kept) == 1 else [dict(step) for step in kept]})
    draft.report.carried(key)


def selector_of(text: str) -> tuple[Selector | None, str]:
    """Returns (the selector, what was changed) of a filter by its prefix, or (None, why not)."""
    text = text.strip()
    if text.startswith("json:"):
        path, how = jsonpath(text.removeprefix("json:"))
        return (None, how) if path is None else ({"jsonpath": path}, how)
    for prefix in ("jqraw:", "jq:"):
        if text.startswith(prefix):
            path = jq_path(text.removeprefix(prefix))
            if path is None:
                return None, _("only paths of jq (.a.b[0], .a[], .[] | .x) can be written as JSONPath")
            return {"jsonpath": path}, _("jq's path as JSONPath")
    return removal_of(text)


def removal_of(text: str) -> tuple[Selector | None, str]:
    """Returns (the selector, "") of CSS or XPath by its prefix, or (None, why not)."""
    text = text.strip()
    for prefix in ("xpath1:", "xpath:", ""):
        path = text.removeprefix(prefix)
        if (prefix and path != text) or (not prefix and text.startswith(("/", "("))):
            wrong = xpath_lacking(path)
            return ({"xpath": path.strip()}, "") if wrong is None else (None, wrong)
    wrong = css_lacking(text)
    return ({"css": css(text)}, "") if wrong is None else (None, wrong)


# --- lines -----------------------------------------------------------------------------------------------------------


def pattern_of(text: str) -> tuple[dict[str, object] | None, str]:
    """Returns (the pattern, "") of a text or of `/re/flags`, in any letter case, or (None, why not)."""
    expression = of_slashes(text.strip())
    if expression is None:
        return {"text": text.strip()}, ""
    wrong = lacking(expression)
    return ({"re": expression}, "") if wrong is None else (None, wrong)


def patterns_of(draft: Draft, key: str, texts: list[str]) -> list[dict[str, object]]:
    """Returns the patterns of a list; says of each what becomes of it."""
    patterns = list[dict[str, object]]()
    for number, text in enumerate(texts):
        pattern, wrong = pattern_of(text)
        if pattern is None:
            draft.report.not_carried(f"{key}[{number}]", wrong)
            continue
        patterns.append(pattern)
        draft.report.carried(f"{key}[{number}]")
    return patterns


def _ignore(draft: Draft, key: str, texts: list[str]) -> None:
    patterns = patterns_of(draft, key, texts)
    if patterns:
        draft.add_step(key, {"lines": {"drop": patterns}})
    if any("s" in _flags(text) or "m" in _flags(text) for text in texts):
        draft.report.approximated(key, _("patterns with flag s or m are held against one line each, not against spans"))
    else:
        draft.report.approximated(key, _("ignored lines are not kept, so that they are not shown either"))


def _flags(text: str) -> str:
    return text.strip().rpartition("/")[2] if of_slashes(text.strip()) is not None else ""


def _lines_containing(draft: Draft, key: str, texts: list[str]) -> None:
    draft.add_step(key, {"lines": {"keep": [{"text": text.strip()} for text in texts]}})
    draft.report.carried(key)


def _extract(draft: Draft, key: str, texts: list[str]) -> None:
    """All matches; where a pattern has groups, the groups glued together."""
    patterns = [of_slashes(text.strip()) or f"(?i){escaped(text.strip())}" for text in texts]
    usable = list[str]()
    for number, pattern in enumerate(patterns):
        wrong = lacking(pattern)
        if wrong is not None:
            draft.report.not_carried(f"{key}[{number}]", wrong)
        else:
            usable.append(pattern)
            draft.report.carried(f"{key}[{number}]")
    if not usable:
        draft.report.not_carried(key, _("none of its patterns can be used"))
    elif len(usable) == 1:
        draft.add_step(key, _find(usable[0]))
        draft.report.carried(key)
    else:
        draft.add_step(key, _find_any(usable))
        draft.report.approximated(key, _("matches come in the order of the text, not pattern by pattern"))


def _find(pattern: str) -> Step:
    number = groups_of(pattern)
    return {"find": {"re": pattern, "with": "".join(f"\\g<{n}>" for n in range(1, number + 1)) or r"\g<0>"}}


def _find_any(patterns: list[str]) -> Step:
    """Joins patterns by `|`, each with its flags; groups of those that do not match are empty."""
    joined = "|".join(f"(?{_leading(pattern)}:{_body(pattern)})" for pattern in patterns)
    if all(groups_of(pattern) for pattern in patterns):
        return _find(joined)
    return {"find": {"re": joined, "with": r"\g<0>"}}


def _leading(pattern: str) -> str:
    return pattern[2 : pattern.index(")")]


def _body(pattern: str) -> str:
    return pattern[pattern.index(")") + 1 :]


# --- white space, prices of pages ------------------------------------------------------------------------------------


def _apply_space(draft: Draft, fields: Item, settings: Settings) -> None:
    trim = bool(fields.pop("trim_text_whitespace", False))
    if settings.collapse:
        draft.add_step("ignore_whitespace", {"space": "collapse"})
    elif trim:
        draft.add_step("trim_text_whitespace", {"space": "trim"})
    draft.report.carried("trim_text_whitespace") if trim else draft.report.nothing_said("trim_text_whitespace")


def _apply_tracking(draft: Draft, fields: Item) -> None:
    key = "track_ldjson_price_data"
    if fields.pop(key, None) == "accepted":
        draft.report.not_carried(key, _("prices among a page's data are values: set one of kind price"))
    else:
        draft.report.nothing_said(key)


_LISTS: dict[str, Callable[[Draft, str, list[str]], None]] = {
    "subtractive_selectors": _remove,
    "include_filters": _keep,
    "ignore_text": _ignore,
    "extract_lines_containing": _lines_containing,
    "extract_text": _extract,
}
