"""What decides whether a change is told: triggers, forbidden texts, unique lines, rows of conditions."""

from __future__ import annotations

from collections.abc import Callable

from pollerd.moving.changedetection.groups import WatchGroups
from pollerd.moving.changedetection.instance import Item, table
from pollerd.moving.changedetection.steps import patterns_of
from pollerd.moving.draft import Condition, Draft
from pollerd.moving.patterns import escaped, lacking
from pollerd.texts import _

_ANNOUNCED = {"against": "announced"}
"""A blocked check does not move what the next one is compared with: told changes do."""
_MAX_ROWS = 50


def apply(draft: Draft, fields: Item, groups: WatchGroups) -> None:
    """Adds the conditions of a watch with those of its groups."""
    for key, leaf in (("trigger_text", "present"), ("text_should_not_be_present", "absent")):
        values = groups.joined(key, fields.pop(key, None))
        patterns = patterns_of(draft, key, values)
        if patterns:
            draft.conditions.append({leaf: patterns, **_ANNOUNCED})
            draft.report.carried(key)
        elif values:
            draft.report.not_carried(key, _("none of its patterns can be used: the condition is gone"))
        else:
            draft.report.nothing_said(key)
    _apply_unique(draft, fields)
    _apply_kinds(draft, fields)
    _apply_rows(draft, fields)


def _apply_unique(draft: Draft, fields: Item) -> None:
    if fields.pop("check_unique_lines", False):
        draft.conditions.append({"new_in": "all"})
        draft.report.approximated("check_unique_lines", _("held against all stored versions, in their letter case"))
    else:
        draft.report.nothing_said("check_unique_lines")


def _apply_kinds(draft: Draft, fields: Item) -> None:
    """Which of added, removed and replaced lines count."""
    added, removed, replaced = (
        bool(fields.pop(f"filter_text_{kind}", True)) for kind in ("added", "removed", "replaced")
    )
    if added and not removed:
        draft.conditions.append({"only" if replaced else "purely": "additions"})
    elif removed and not added:
        draft.conditions.append({"only" if replaced else "purely": "removals"})
    for kind, enabled in (("added", added), ("removed", removed), ("replaced", replaced)):
        key = f"filter_text_{kind}"
        if enabled:
            draft.report.nothing_said(key)
        elif added != removed:
            draft.report.approximated(key, _("the whole text is kept; a message is sent if such lines are in it"))
        else:
            draft.report.not_carried(key, _("only added or only removed lines can be singled out"))


def _apply_rows(draft: Draft, fields: Item) -> None:
    rows, any_of = fields.pop("conditions", None), fields.pop("conditions_match_logic", "ALL") == "ANY"
    conditions = list[Condition]()
    for number, row in enumerate(rows if isinstance(rows, list) else []):
        place = f"conditions[{number}]"
        if number >= _MAX_ROWS:
            draft.report.not_carried(place, _("at most {max_rows} are carried over", max_rows=_MAX_ROWS))
            continue
        field, operator, value = (str(table(row).get(name) or "") for name in ("field", "operator", "value"))
        if not (field and operator and value):
            draft.report.nothing_said(place, _("a row with an empty part says nothing there either"))
            continue
        leaf = _leaf(draft, place, field, operator, value)
        if leaf is not None:
            conditions.append(leaf)
    if conditions:
        draft.conditions += [{"any": conditions}] if any_of and len(conditions) > 1 else conditions
    _say(draft, rows, conditions)


def _say(draft: Draft, rows: object, conditions: list[Condition]) -> None:
    draft.report.carried("conditions_match_logic") if conditions else draft.report.nothing_said(
        "conditions_match_logic"
    )
    if not rows:
        draft.report.nothing_said("conditions")
    elif conditions:
        draft.report.carried("conditions")
    else:
        draft.report.not_carried("conditions", _("none of its rows can be used"))


def _leaf(draft: Draft, place: str, field: str, operator: str, value: str) -> Condition | None:
    make = _FIELDS.get(field)
    if make is None:
        draft.report.not_carried(place, _('"{field}" is no field that is known here', field=field[:40]))
        return None
    leaf, how = make(draft, operator, value)
    if leaf is None:
        draft.report.not_carried(place, how)
    elif how:
        draft.report.approximated(place, how)
    else:
        draft.report.carried(place)
    return leaf


Leaf = tuple[Condition | None, str]
_NUMBER = "extracted_number"


def _number(draft: Draft, operator: str, value: str) -> Leaf:
    """The first number of the whole text."""
    number = _float(value)
    if number is None:
        return None, _("its value is no number")
    name = {">": "above", ">=": "above", "<": "below", "<=": "below", "==": "equals", "!=": "equals"}.get(operator)
    if name is None:
        return None, _("the operator {operator} does not go with a number", operator=operator[:20])
    draft.values.setdefault(_NUMBER, {"kind": "number", "from": {"re": r"[-+]?\d[\d.,]*"}, "which": "first"})
    leaf: Condition = {"value": _NUMBER, name: number, **_ANNOUNCED}
    if operator in (">=", "<="):
        equal: Condition = {"value": _NUMBER, "equals": number, **_ANNOUNCED}
        leaf = {"any": [leaf, equal]}
    elif operator == "!=":
        leaf = {"not": leaf}
    return leaf, _("the first number of the text, as pollerd reads numbers")


def _text(draft: Draft, operator: str, value: str) -> Leaf:
    literal = escaped(value.strip())
    if operator in ("length_min", "length_max"):
        return _length(operator, value)
    if operator in ("in", "!in"):
        return {"present" if operator == "in" else "absent": {"text": value, "case": True}, **_ANNOUNCED}, ""
    pattern = {
        "starts_with": rf"(?i)\A\s*{literal}",
        "ends_with": rf"(?i){literal}\s*\Z",
        "contains_regex": f"(?i){value}",
        "!contains_regex": f"(?i){value}",
        "==": rf"\A\s*{literal}\s*\Z",
        "!=": rf"\A\s*{literal}\s*\Z",
    }.get(operator)
    if pattern is None:
        return None, _("the operator {operator} has no counterpart for texts", operator=operator[:20])
    wrong = lacking(pattern)
    if wrong is not None:
        return None, wrong
    return {"absent" if operator.startswith("!") else "present": {"re": pattern}, **_ANNOUNCED}, ""


def _length(operator: str, value: str) -> Leaf:
    if not value.strip().isdecimal() or len(value) > 8:
        return None, _("its value is no whole number")
    side = "min" if operator == "length_min" else "max"
    return {"length": {side: int(value)}, **_ANNOUNCED}, ""


def _words(draft: Draft, operator: str, value: str) -> Leaf:
    return None, _("words are not counted; length counts characters")


def _distance(draft: Draft, operator: str, value: str) -> Leaf:
    """A ratio r of likeness is about a share 1 - r of change."""
    number = _float(value)
    if number is None or operator not in ("<", "<=") or not 0 <= number < 1:
        return None, _("only a ratio that must be below some number from 0 to 1 can be said as a least share of change")
    return {
        "size": {"share": round(1 - number, 6)},
        **_ANNOUNCED,
    }, _("the share of the text that changed, about 1 - ratio")


def _edits(draft: Draft, operator: str, value: str) -> Leaf:
    number = _float(value)
    if number is None or operator not in (">", ">=") or not 0 <= number < 1e8:
        return None, _("only a distance that must be above some number can be said as a least size of change")
    return {"size": {"chars": int(number) + (operator == ">")}, **_ANNOUNCED}, _(
        "the number of characters that changed"
    )


def _float(value: str) -> float | None:
    try:
        number = float(value.strip())
    except ValueError:
        return None
    return number if abs(number) < 1e15 else None


_FIELDS: dict[str, Callable[[Draft, str, str], Leaf]] = {
    "page_filtered_text": _text,
    _NUMBER: _number,
    "word_count": _words,
    "levenshtein_ratio": _distance,
    "levenshtein_distance": _edits,
}
