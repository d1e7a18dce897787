"""What counts on a page, as a form: a selection's settings as rows of fields, and rows as settings.

Pure. A row that the form cannot show stays as JSON, so that sending a form back changes nothing that was not edited.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from difflib import SequenceMatcher
from typing import Any, Literal

import orjson

from pollerd.errors import InvalidValueError
from pollerd.model import DEFAULT_SELECTION
from pollerd.texts import N_, _

Settings = dict[str, Any]
ROWS_MAX = 100
"""Most rows of a kind that one form can have."""


# Expressions: one field for CSS, XPath and JSONPath.


def expression_of(text: str) -> dict[str, str]:
    """Returns an expression as steps have it; its first character says whether it is XPath, JSONPath or CSS."""
    if text.startswith(("/", "(", "./")):
        return {"xpath": text}
    return {"jsonpath": text} if text.startswith("$") else {"css": text}


def _text_of_expression(expression: object) -> str | None:
    """Returns an expression for its field; None: the field cannot show it."""
    if not isinstance(expression, Mapping) or len(expression) != 1:
        return None
    ((_language, text),) = expression.items()
    return text if isinstance(text, str) and text == text.strip() and expression_of(text) == expression else None


# Patterns: a plain text, or a regular expression between slashes.

_REGEX = re.compile(r"/(.+)/", re.DOTALL)


def pattern_of(text: str, *, case: bool = False) -> Settings:
    """Returns a pattern as steps and conditions have it; between slashes stands a regular expression.

    case: upper and lower case of a plain text differ, as they always do in a regular expression.
    """
    regex = _REGEX.fullmatch(text)
    if regex is not None:
        return {"re": regex[1]}
    return {"text": text, "case": True} if case else {"text": text}


def text_of_pattern(pattern: object) -> tuple[str, bool] | None:
    """Returns a pattern for its field, and whether its case counts; None: the field cannot show it."""
    definition = _normal_pattern(pattern)
    if not isinstance(definition, Mapping):
        return None
    shown, case = (
        f"/{definition['re']}/" if "re" in definition else str(definition.get("text", "")),
        "case" in definition,
    )
    is_line = shown == shown.strip() and "\n" not in shown
    return (shown, case) if is_line and pattern_of(shown, case=case) == definition else None


def _normal_pattern(pattern: Any) -> Any:
    """Returns a pattern as the form writes it: a bare text as a table, without what is so by default."""
    if isinstance(pattern, str):
        return {"text": pattern}
    is_default = isinstance(pattern, Mapping) and pattern.get("case") is False
    return {key: value for key, value in pattern.items() if key != "case"} if is_default else pattern


# Rows that keep and ignore.

ELEMENTS, LINES, CASED_LINES = "elements", "lines", "cased lines"
PART_KINDS: Mapping[str, str] = {
    ELEMENTS: N_("the part"),
    LINES: N_("lines with"),
    CASED_LINES: N_("lines with (as typed)"),
}
"""What a row that keeps or ignores names."""


@dataclass(slots=True)
class PartRow:
    """One part of a page: the elements of an expression, or the lines that a pattern fits."""

    text: str = ""
    how: str = ELEMENTS
    error: str = ""

    @property
    def pattern(self) -> Settings:
        """The pattern of its lines."""
        return pattern_of(self.text, case=self.how == CASED_LINES)

    def same(self, other: PartRow) -> bool:
        """Returns whether it says the same."""
        return (self.text, self.how) == (other.text, other.how)


VALUE_KINDS: Mapping[str, str] = {
    "price": N_("price"),
    "number": N_("number"),
    "date": N_("date"),
    "text": N_("text"),
}
WHICH_VALUE: Mapping[str, str] = {
    "only": N_("the only one"),
    "first": N_("the first"),
    "last": N_("the last"),
    "min": N_("the lowest"),
    "max": N_("the highest"),
}


@dataclass(slots=True)
class ValueRow:
    """One value that is read from the page."""

    name: str = ""
    kind: str = "price"
    source: str = ""
    """CSS, XPath or JSONPath, or a regular expression between slashes for the kept text; empty: the kept text."""
    attribute: str = ""
    which: str = "only"
    currency: str = ""
    was: str = ""
    """Its name in the settings that the form shows, of which it keeps what has no field."""
    error: str = ""


_VALUE_FIELDS = ("kind", "from", "which", "currency")


def _source_text(source: object) -> tuple[str, str] | None:
    """Returns where a value is read, as text, and its attribute; None: the form cannot show it."""
    if source is None:
        return "", ""
    if not isinstance(source, Mapping):
        return None
    if set(source) == {"re"} and isinstance(source["re"], str):
        return _slashed(source["re"])
    attribute = source.get("attribute") or ""
    text = _text_of_expression({key: value for key, value in source.items() if key != "attribute"})
    return None if text is None or not isinstance(attribute, str) or _REGEX.fullmatch(text) else (text, attribute)


def _slashed(expression: str) -> tuple[str, str] | None:
    return (f"/{expression}/", "") if expression == expression.strip() else None


def _value_rows(values: Mapping[str, Any]) -> list[ValueRow]:
    rows = []
    for name, definition in values.items():
        source = _source_text(definition.get("from"))
        if source is None:
            continue
        which, currency = definition.get("which") or "only", definition.get("currency") or ""
        rows.append(ValueRow(name, definition["kind"], *source, which, currency, name))
    return rows


def value_definition(row: ValueRow, stored: Mapping[str, Any]) -> Settings:
    """Returns the settings of a value. stored: those of the value that the row showed."""
    definition = {key: value for key, value in stored.items() if key not in _VALUE_FIELDS}
    definition["kind"] = row.kind
    source_regex = _REGEX.fullmatch(row.source)
    if source_regex is not None:
        definition["from"] = {"re": source_regex[1]}
    elif row.source:
        definition["from"] = expression_of(row.source) | ({"attribute": row.attribute} if row.attribute else {})
    if row.which != "only":
        definition["which"] = row.which
    if row.currency:
        definition["currency"] = row.currency.upper()
    return definition


# Conditions: rows that "and" and "or" join, "and" before "or".

Join = Literal["and", "or"]
AS_JSON = "json"
TEXT_TESTS: Mapping[str, str] = {
    "appears": N_("appears"),
    "disappears": N_("disappears"),
    "added": N_("is in a new line"),
    "removed": N_("was in a line that is gone"),
    "present": N_("is on the page"),
    "absent": N_("is not on the page"),
}
"""Tests of the text, and of values that are texts (the two about lines: of the text only)."""
LINE_TESTS: Mapping[str, str] = {
    "additions": N_("has any new line"),
    "removals": N_("lost any line"),
    "additions_or_left": N_("has any new line, or at most … percent of the text is left"),
    "pure_additions": N_("has only new lines"),
    "pure_removals": N_("has only lost lines"),
    "new_in": N_("has a line that is in none of the last … versions (a number, or all)"),
    "longer": N_("has at least … characters"),
    "shorter": N_("has at most … characters"),
    "chars": N_("differs by at least … characters"),
    "percent": N_("differs by at least … percent"),
}
"""Tests of the text as a whole."""
NUMBER_TESTS: Mapping[str, str] = {
    "crosses_below": N_("falls below"),
    "crosses_above": N_("rises above"),
    "below": N_("is below"),
    "above": N_("is above"),
    "equals": N_("is"),
    "equals_text": N_("is the text"),
    "changes_by": N_("changes by at least (7, or 5 %)"),
    "falls_by": N_("falls by at least (7, or 5 %)"),
    "rises_by": N_("rises by at least (7, or 5 %)"),
}
"""Tests of values."""
_WITHOUT_ARGUMENT = frozenset({"additions", "removals", "pure_additions", "pure_removals"})
_SINCE_ALERT = frozenset(
    {"present", "absent", "longer", "shorter", "chars", "percent", "below", "above", "equals", "equals_text"}
    | {"changes_by", "falls_by", "rises_by"}
)


@dataclass(slots=True)
class ConditionRow:
    """One test: of the text, or of the value named `of`."""

    of: str = ""
    test: str = "appears"
    argument: str = ""
    negated: bool = False
    since_alert: bool = False
    """Whether the last alert is what it compares with, not the last check."""
    case: bool = False
    """Whether upper and lower case of words differ."""
    join: Join = "and"
    """How the row before it is joined to it."""
    error: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is typed into it."""
        return not self.argument and self.test not in _WITHOUT_ARGUMENT

    def same(self, other: ConditionRow) -> bool:
        """Returns whether it says the same."""
        return self._said == other._said

    @property
    def _said(self) -> tuple[object, ...]:
        return (self.of, self.test, self.argument, self.negated, self.since_alert, self.case, self.join)


def leaf_of(row: ConditionRow) -> Settings:
    """Returns the condition that a row says. Raises `InvalidValueError` for a number that is none, or a wrong test."""
    leaf = _bare_leaf(row)
    if row.since_alert:
        if row.test not in _SINCE_ALERT:
            raise _unfit(_("a test of what differs since the last check: choose “since the last check”"))
        for part in leaf.get("any", [leaf]):
            part["against"] = "announced"
    return {"not": leaf} if row.negated else leaf


def _bare_leaf(row: ConditionRow) -> Settings:
    test, argument = row.test, row.argument
    if test == AS_JSON:
        return _json_leaf(argument)
    if row.of and (test in LINE_TESTS or test in ("added", "removed")):
        raise _unfit(_("a test of the whole text: choose “the text”"))
    if not row.of and test in NUMBER_TESTS:
        raise _unfit(_("a test of a value: choose the value, or add one above"))
    if test not in _LEAVES_OF:
        raise InvalidValueError("test", _("one of the tests that are offered"), test)
    return _LEAVES_OF[test](row)


def _unfit(why: str) -> InvalidValueError:
    return InvalidValueError("test", _("This is {why}.", why=why), "", sentence=True)


def _json_leaf(text: str) -> Settings:
    try:
        leaf = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidValueError("condition", f"JSON ({error})", text[:100]) from error
    if not isinstance(leaf, dict):
        raise InvalidValueError("condition", _("a table, as in docs/selections.md"), text[:100])
    return leaf


def _move(value: str, test: str, argument: str) -> Settings:
    unit = "percent" if argument.endswith("%") else "amount"
    step = _number(argument.removesuffix("%"))
    if step <= 0:
        raise InvalidValueError("argument", _("above 0"), argument)
    signs = {"changes_by": (1, -1), "falls_by": (-1,), "rises_by": (1,)}[test]
    moves = [{"value": value, "changed_by": {unit: sign * step}} for sign in signs]
    return moves[0] if len(moves) == 1 else {"any": moves}


def _number(text: str) -> int | float:
    plain = text.strip().replace(" ", "")
    try:
        return int(plain) if re.fullmatch(r"-?\d{1,18}", plain) else float(plain)
    except ValueError:
        raise InvalidValueError("argument", _("a number, such as 1000 or 9.5"), text) from None


def _share(text: str) -> float:
    return float(Decimal(repr(_number(text.removesuffix("%")))) / 100)


def _shown_share(share: object) -> str | None:
    """Returns a part of 1 in percent, exactly."""
    is_number = isinstance(share, int | float) and not isinstance(share, bool)
    return f"{(Decimal(repr(share)) * 100).normalize():f}" if is_number else None


def _number_or_text(text: str) -> int | float | str:
    try:
        return _number(text)
    except InvalidValueError:
        return text


def _pattern_leaf(row: ConditionRow) -> Settings:
    return {**({"value": row.of} if row.of else {}), row.test: pattern_of(row.argument, case=row.case)}


def _level_leaf(row: ConditionRow) -> Settings:
    return {"value": row.of, row.test: _number(row.argument)}


_LEVEL_TESTS = ("crosses_below", "crosses_above", "below", "above")
_LEAVES_OF: Mapping[str, Callable[[ConditionRow], Settings]] = {
    **dict.fromkeys(("appears", "disappears", "present", "absent"), _pattern_leaf),
    "added": lambda row: {"appears": pattern_of(row.argument, case=row.case), "in": "added"},
    "removed": lambda row: {"disappears": pattern_of(row.argument, case=row.case), "in": "removed"},
    **dict.fromkeys(("additions", "removals"), lambda row: {"only": row.test}),
    **dict.fromkeys(("pure_additions", "pure_removals"), lambda row: {"purely": row.test.removeprefix("pure_")}),
    "additions_or_left": lambda row: {"only": "additions", "unless_left_below": _share(row.argument)},
    "new_in": lambda row: {"new_in": "all" if row.argument == "all" else _number(row.argument)},
    "longer": lambda row: {"length": {"min": _number(row.argument)}},
    "shorter": lambda row: {"length": {"max": _number(row.argument)}},
    "chars": lambda row: {"size": {"chars": _number(row.argument)}},
    "percent": lambda row: {"size": {"share": _share(row.argument)}},
    **dict.fromkeys(_LEVEL_TESTS, _level_leaf),
    "equals": lambda row: {"value": row.of, "equals": _number_or_text(row.argument)},
    "equals_text": lambda row: {"value": row.of, "equals": row.argument},
    **dict.fromkeys(("changes_by", "falls_by", "rises_by"), lambda row: _move(row.of, row.test, row.argument)),
}
"""The condition of each test."""


def _row_of(leaf: Mapping[str, Any], *, negated: bool) -> ConditionRow:
    """Returns the row that shows a condition; what no row can show is shown as JSON."""
    for row in _candidate_rows(leaf):
        row.negated = negated
        if leaf_of(row) == ({"not": leaf} if negated else leaf):
            return row
    return ConditionRow(test=AS_JSON, argument=orjson.dumps(leaf).decode(), negated=negated)


def _candidate_rows(leaf: Mapping[str, Any]) -> Iterator[ConditionRow]:
    if "any" in leaf:  # a move in either direction
        for part in leaf["any"]:
            for row in _candidate_rows(part):
                if row.test == "rises_by":
                    row.test = "changes_by"
                    yield row
        return
    of, announced = leaf.get("value", ""), leaf.get("against") == "announced"
    for key, value in leaf.items():
        if key in _PATTERN_TESTS:
            shown = text_of_pattern(value)
            test = {"added": "added", "removed": "removed"}.get(leaf.get("in", ""), key)
            if shown is not None:
                yield ConditionRow(of, test, shown[0], since_alert=announced, case=shown[1])
        for test, argument in _tests_of(key, value):
            if argument is not None:
                yield ConditionRow(of, test, argument, since_alert=announced)


_PATTERN_TESTS = ("appears", "disappears", "present", "absent")


def _tests_of(key: str, value: Any) -> Iterator[tuple[str, str | None]]:
    match key:
        case "unless_left_below":
            yield "additions_or_left", _shown_share(value)
        case "only":
            yield str(value), ""
        case "purely":
            yield f"pure_{value}", ""
        case "new_in" | "crosses_below" | "crosses_above" | "below" | "above" | "equals":
            yield key, value if isinstance(value, str) else _shown_number(value)
            yield "equals_text", value if isinstance(value, str) else None
        case "length":
            yield from (
                (test, _shown_number(value.get(name))) for name, test in (("min", "longer"), ("max", "shorter"))
            )
        case "size":
            yield "chars", _shown_number(value.get("chars"))
            yield "percent", _shown_share(value.get("share"))
        case "changed_by":
            for unit, sign in (("amount", ""), ("percent", " %")):
                step = value.get(unit)
                if isinstance(step, int | float):
                    yield ("falls_by" if step < 0 else "rises_by"), f"{_shown_number(abs(step))}{sign}"


def _shown_number(value: object) -> str | None:
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


Term = tuple[Mapping[str, Any], bool]
"""A condition, and whether it is negated."""


def _terms(document: Mapping[str, Any], *, negated: bool = False) -> list[list[Term]]:
    """Returns a condition as alternatives of conditions that hold together. Raises OverflowError if they are many."""
    if "not" in document:
        return _terms(document["not"], negated=not negated)
    if "any" in document and _row_of(document, negated=False).test == "changes_by":
        return [[(document, negated)]]
    several = _several(document)
    if several is None:
        return [[(document, negated)]]
    joined, parts = several
    alternatives = [_terms(part, negated=negated) for part in parts]
    if (joined == "any") is not negated:
        return _bounded([group for terms in alternatives for group in terms])
    products = itertools.islice(itertools.product(*alternatives), _LEAVES + 1)
    return _bounded([list(itertools.chain.from_iterable(groups)) for groups in products])


_LEAVES = 50


def _bounded(groups: list[list[Term]]) -> list[list[Term]]:
    if sum(map(len, groups)) > _LEAVES:
        raise OverflowError
    return groups


def _several(document: Mapping[str, Any]) -> tuple[str, Sequence[Mapping[str, Any]]] | None:
    """Returns the parts of a condition that has some, and whether any or all of them have to hold."""
    for key in ("all", "any"):
        if key in document:
            return key, document[key]
    for key, joined in (("present", "any"), ("absent", "all")):
        if isinstance(document.get(key), list):
            return joined, [{**document, key: pattern} for pattern in document[key]]
    for key in ("length", "size"):  # both limits of one are two tests
        if len(document.get(key, ())) > 1:
            return "all", [{**document, key: {name: limit}} for name, limit in document[key].items()]
    return None


def condition_rows(document: Mapping[str, Any] | None) -> list[ConditionRow]:
    """Returns conditions as rows; those that would be too many are one row of JSON."""
    if not document:
        return []
    try:
        groups = _terms(_normal(document))
    except OverflowError:
        return [ConditionRow(test=AS_JSON, argument=orjson.dumps(document).decode())]
    rows = list[ConditionRow]()
    for group in groups:
        for number, (leaf, negated) in enumerate(group):
            row = _row_of(leaf, negated=negated)
            row.join = "and" if number or not rows else "or"
            rows.append(row)
    return rows


_OF_LINES = {"added": {"disappears": "appears"}, "removed": {"appears": "disappears"}}
_DEFAULTS = (("against", "last"), ("in", "content"))


def _normal(document: Any) -> Any:
    """Returns conditions as the form writes them: texts of patterns as tables, without what is so by default."""
    if isinstance(document, list):
        return [_normal(part) for part in document]
    said = {key: value for key, value in document.items() if value is not None and (key, value) not in _DEFAULTS}
    of_lines = _OF_LINES.get(said.get("in", ""), {})  # where a text is in such lines, both tests say so
    return {of_lines.get(key, key): _normal_part(key, value) for key, value in said.items()}


def _normal_part(key: str, value: Any) -> Any:
    if key in ("all", "any", "not"):
        return _normal(value)
    if key in _PATTERN_TESTS:
        return [*map(_normal_pattern, value)] if isinstance(value, list) else _normal_pattern(value)
    if key in ("length", "size"):
        return {name: limit for name, limit in value.items() if limit is not None}
    if key == "changed_by":
        return {unit: _normal_number(step) for unit, step in value.items()}
    return _normal_number(value) if key in _LEVEL_TESTS else value


def _normal_number(value: Any) -> Any:
    """Returns a number that is written as a text as a number, unless that would round it."""
    if not isinstance(value, str):
        return value
    number = _number(value)
    return number if Decimal(repr(number)) == Decimal(value) else value


def conditions_of(rows: Iterable[ConditionRow]) -> Settings | None:
    """Returns the conditions that rows say; None without rows. Raises `InvalidValueError` as `leaf_of`."""
    groups: list[list[Settings]] = []
    for row in rows:
        if row.join == "or" or not groups:
            groups.append([])
        groups[-1].append(leaf_of(row))
    together = [group[0] if len(group) == 1 else {"all": group} for group in groups]
    if not together:
        return None
    return together[0] if len(together) == 1 else {"any": together}


# The whole form.

_PHASES = ("as", "remove", "keep", "items", "text", "lines", "replace", "find", "space", "case", "unique", "sort")
_PHASE = {"as": 0, "remove": 1, "keep": 2, "items": 2, "text": 3, "lines": 4, "replace": 4, "find": 4}
_LAST_PHASE = 5


@dataclass(slots=True)
class CountsForm:
    """One selection as the form shows it."""

    selection: str = DEFAULT_SELECTION
    names: list[str] = field(default_factory=lambda: [DEFAULT_SELECTION])
    """All selections of the site."""
    keep: list[PartRow] = field(default_factory=list)
    ignore: list[PartRow] = field(default_factory=list)
    optional: bool = False
    """Whether finding nothing is a state of the page, not a failed check."""
    values: list[ValueRow] = field(default_factory=list)
    hidden_values: list[str] = field(default_factory=list)
    """Names of values that only JSON can show."""
    conditions: list[ConditionRow] = field(default_factory=list)
    least_chars: str = ""
    least_percent: str = ""
    others: list[str] = field(default_factory=list)
    """Steps that only JSON can show."""
    json: str = ""
    errors: list[str] = field(default_factory=list)
    """Errors that belong to no row."""

    @property
    def value_names(self) -> list[str]:
        """Names that conditions can use."""
        return [row.name for row in self.values if row.name] + self.hidden_values

    @property
    def is_right(self) -> bool:
        """Whether no row has an error."""
        rows: tuple[PartRow | ValueRow | ConditionRow, ...] = (*self.keep, *self.ignore, *self.values, *self.conditions)
        return not self.errors and not any(row.error for row in rows)


def form_of(settings: str, selection: str = DEFAULT_SELECTION) -> CountsForm:
    """Returns the form of one selection of a site. settings: as a site has them; empty: the whole page counts."""
    document: dict[str, Any] = orjson.loads(settings) if settings else {}
    stored = document.get(selection, {})
    values = stored.get("values") or {}
    least = stored.get("least") or {}
    shown = _value_rows(values)
    form = CountsForm(
        selection=selection,
        names=sorted({DEFAULT_SELECTION, selection, *document}, key=lambda name: (name != DEFAULT_SELECTION, name)),
        values=shown,
        hidden_values=[name for name in values if name not in {row.name for row in shown}],
        conditions=condition_rows(stored.get("conditions")),
        least_chars=_shown_number(least.get("chars")) or "",
        least_percent=_shown_share(least["share"]) or "" if least.get("share") else "",
        json=orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() if document else "",
    )
    _take_steps(form, stored.get("steps") or [])
    return form


def _take_steps(form: CountsForm, steps: Any) -> None:
    """Puts steps into rows; those that no row can show are named."""
    for step in steps if isinstance(steps, list) else [steps]:
        rows = None if "keep" in step and form.keep else _rows_of_step(step)
        if rows is None:
            form.others.append(orjson.dumps(step).decode())
            continue
        kept, ignored = rows
        form.keep += kept
        form.ignore += ignored
        form.optional |= "keep" in step and step.get("optional") is True


def _rows_of_step(step: Mapping[str, Any]) -> tuple[list[PartRow], list[PartRow]] | None:
    """Returns the rows that keep and those that ignore; None: a step that no row can show."""
    if "remove" in step:
        removed = _part_rows(step["remove"], ELEMENTS)
        return None if removed is None else ([], removed)
    if "keep" in step and not set(step) - {"keep", "optional"}:
        kept = _part_rows(step["keep"], ELEMENTS)
        return None if kept is None else (kept, [])
    if set(step) == {"lines"} and set(step["lines"]) == {"drop"}:
        dropped = _part_rows(step["lines"]["drop"], LINES)
        return None if dropped is None else ([], dropped)
    if set(step) == {"lines"} and set(step["lines"]) == {"keep"}:
        lines = _part_rows(step["lines"]["keep"], LINES)
        return None if lines is None else (lines, [])
    return None


def _part_rows(parts: Any, how: str) -> list[PartRow] | None:
    rows = [_part_row(part, how) for part in (parts if isinstance(parts, list) else [parts])]
    shown = [row for row in rows if row is not None]
    return shown if len(shown) == len(rows) else None


def _part_row(part: Any, how: str) -> PartRow | None:
    if how == ELEMENTS:
        text = _text_of_expression(part)
        return None if text is None else PartRow(text)
    pattern = text_of_pattern(part)
    return None if pattern is None else PartRow(pattern[0], CASED_LINES if pattern[1] else LINES)


def settings_of_form(form: CountsForm, settings: str) -> Settings:
    """Returns all selections of the site with the one that the form shows as it says.

    settings: those that the site has. What was not edited stays as it is written there, so that a new condition leaves
    the content that is known, and a form that is sent back changes nothing. Raises `InvalidValueError` as `leaf_of`.
    """
    document: dict[str, Any] = orjson.loads(settings) if settings else {}
    stored: Settings = document.get(form.selection, {})
    before = form_of(settings, form.selection)
    selection = {key: value for key, value in stored.items() if key not in ("steps", "values", "conditions", "least")}
    parts = {
        "steps": stored.get("steps") if _same_parts(form, before) else _steps(form),
        "values": stored.get("values") if form.values == before.values else _values(form, stored),
        "conditions": stored.get("conditions")
        if _all_same(form.conditions, before.conditions)
        else conditions_of(form.conditions),
        "least": stored.get("least") if _same_least(form, before) else _least(form),
    }
    selection |= {key: value for key, value in parts.items() if value}
    if not selection and form.selection == DEFAULT_SELECTION and set(document) <= {DEFAULT_SELECTION}:
        return {}
    return {**document, form.selection: selection}


def _all_same(rows: Sequence[Any], others: Sequence[Any]) -> bool:
    return len(rows) == len(others) and all(row.same(other) for row, other in zip(rows, others, strict=True))


def _same_parts(form: CountsForm, before: CountsForm) -> bool:
    same_rows = _all_same(form.keep, before.keep) and _all_same(form.ignore, before.ignore)
    return same_rows and form.optional == before.optional


def _same_least(form: CountsForm, before: CountsForm) -> bool:
    return (form.least_chars, form.least_percent) == (before.least_chars, before.least_percent)


def _steps(form: CountsForm) -> list[Settings]:
    """Returns the steps of the rows, and those that no row can show, in the order in which they act."""
    removed = [expression_of(row.text) for row in form.ignore if row.how == ELEMENTS]
    kept = [expression_of(row.text) for row in form.keep if row.how == ELEMENTS]
    steps: list[Settings] = [{"remove": removed}] if removed else []
    if kept:
        steps.append({"keep": kept, **({"optional": True} if form.optional else {})})
    for verb, rows in (("keep", form.keep), ("drop", form.ignore)):
        if patterns := [row.pattern for row in rows if row.how != ELEMENTS]:
            steps.append({"lines": {verb: patterns}})
    steps += [orjson.loads(step) for step in form.others]
    return sorted(steps, key=_phase_of)


def _phase_of(step: Mapping[str, Any]) -> int:
    name = next(name for name in _PHASES if name in step)
    return _PHASE.get(name, _LAST_PHASE)


def _values(form: CountsForm, stored: Settings) -> Settings:
    known = stored.get("values") or {}
    hidden = {name: known[name] for name in form.hidden_values if name in known}
    return {row.name: value_definition(row, known.get(row.was, {})) for row in form.values} | hidden


def _least(form: CountsForm) -> Settings:
    least: Settings = {}
    if form.least_chars:
        least["chars"] = _number(form.least_chars)
    if form.least_percent:
        least["share"] = _share(form.least_percent)
    return least


# Checks: each row for itself, so that its error stands next to it.


def check_rows(form: CountsForm) -> None:
    """Writes the errors of rows into them."""
    # Loaded with the first form that is sent.
    from pollerd.detection.selection.conditions.condition import parse_conditions
    from pollerd.detection.selection.conditions.logic import parse_least
    from pollerd.detection.selection.expressions.pattern import compile_pattern
    from pollerd.detection.selection.selection import compile_values
    from pollerd.detection.selection.steps.page import compile_expression

    for row, allowed in [
        *((row, ("css", "xpath", "jsonpath")) for row in form.keep),
        *((row, ("css", "xpath", "jsonpath")) for row in form.ignore),
    ]:
        try:
            if row.how == ELEMENTS:
                compile_expression("", expression_of(row.text), allowed)
            else:
                compile_pattern("", row.pattern)
        except InvalidValueError as error:
            row.error = in_words(error)
    names: set[str] = set()
    for value_row in form.values:
        try:
            compile_values("", {value_row.name: value_definition(value_row, {})})
        except InvalidValueError as error:
            value_row.error = in_words(error)
        if value_row.name in names:
            value_row.error = _("There is another value with this name.")
        names.add(value_row.name)
    for condition_row in form.conditions:
        try:
            leaf = leaf_of(condition_row)
            parse_conditions("", leaf, values=form.value_names, compile_pattern=compile_pattern)
        except InvalidValueError as error:
            condition_row.error = in_words(error)
    try:
        parse_least("", _least(form) or None)
    except InvalidValueError as error:
        form.errors.append(_("Differences that are too small: {error}", error=in_words(error)))


def in_words(error: InvalidValueError) -> str:
    """Returns an error as a sentence to stand next to its field."""
    text = error.allowed if error.sentence else _("must be {allowed}", allowed=error.allowed)
    character = re.search(r"character \d+", error.field)
    text = f"{character[0]}: {text}" if character and character[0] not in text else text
    return f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith((".", "?")) else ".")


# Ignoring a kind of change: a pattern of the line that differs.

_TOKEN = re.compile(r"[0-9](?:[0-9.,]*[0-9])?|[^\W0-9]+|\s+|.", re.DOTALL)
_NUMBER = "[0-9][0-9.,]*"
_SPACE = r"\s+"
"""White space other than one space: entries of feeds have tabs between their fields, and JSON is indented."""
_TOKENS_MOST = 100
_LINE_MOST = 400
"""Characters of a line that are looked at; the rest can be anything."""
_FIXED_LEAST = 3
"""Letters that a kind of line has in common, at least: with fewer the pattern would fit lines of other kinds."""
_SPECIAL = re.compile(r"([\\.^$|?*+()\[\]{}])")


def kind_of_line(before: str, after: str) -> str:
    """Returns the field of an ignored kind of line: a regular expression between slashes.

    before, after: the line on both sides of a change, one of them empty where it was added or removed. Numbers stand
    for all numbers, other parts that differ for anything. Where the lines have too little in common, it fits these two.
    """
    lines = [line for line in (before, after) if line.strip()]
    begun = [_TOKEN.findall(line[:_LINE_MOST])[:_TOKENS_MOST] for line in lines]
    ends = ["$" if "".join(tokens) == line else "" for tokens, line in zip(begun, lines, strict=True)]
    if not begun:
        return ""
    end = min(ends)  # empty if a line goes on
    if len(begun) == 1:
        return f"/^{_generalised(begun[0])}{end}/"
    made, fixed = list[str](), 0
    for operation, start, stop, other_start, other_stop in SequenceMatcher(
        a=begun[0], b=begun[1], autojunk=False
    ).get_opcodes():
        differing = begun[0][start:stop] + begun[1][other_start:other_stop]
        if operation == "equal":
            made.append(_generalised(begun[0][start:stop]))
            fixed += sum(letter.isalpha() for token in begun[0][start:stop] for letter in token)
        else:
            made.append(_NUMBER if operation == "replace" and all(map(_is_number, differing)) else ".*")
    only_numbers = ".*" not in made and any(part != _NUMBER for part in made)
    if fixed < _FIXED_LEAST and not only_numbers:
        made = [f"(?:{'|'.join(dict.fromkeys(map(_generalised, begun)))})"]
    return f"/^{''.join(made)}{end}/"


def _is_number(token: str) -> bool:
    return token[0].isascii() and token[0].isdigit()


def _generalised(tokens: Iterable[str]) -> str:
    return "".join(
        _NUMBER if _is_number(token) else _SPACE if token.isspace() and token != " " else _SPECIAL.sub(r"\\\1", token)
        for token in tokens
    )


def ignoring_line(form: CountsForm, before: str, after: str) -> None:
    """Adds a row that ignores the kind of a line, unless there is one."""
    row = PartRow(kind_of_line(before, after), LINES)
    if row.text and not any(row.same(other) for other in form.ignore):
        form.ignore.append(row)


def take_offer(form: CountsForm, text: str) -> None:
    """Takes an offer of a click into the rows, unless it is there: what is done with it, then its selector.

    text: parted by spaces, `keep`, `ignore` or `value` first; of a value its kind and attribute (`-`: none) follow.
    """
    verb, _space, rest = text.partition(" ")
    if verb == "value":
        kind, attribute, selector = ([*rest.split(" ", 2), "", ""])[:3]
        row = ValueRow(kind, kind, selector, attribute.strip("-"), "first")
        if any((one.source, one.attribute) == (row.source, row.attribute) for one in form.values):
            return
        names = itertools.chain([kind], (f"{kind} {n}" for n in itertools.count(2)))
        row.name = next(name for name in names if name not in form.value_names)
        form.values.append(row)
    elif verb in ("keep", "ignore") and rest:
        rows = form.keep if verb == "keep" else form.ignore
        if not any(one.same(PartRow(rest)) for one in rows):
            rows.append(PartRow(rest))
