"""What counts on a page, in words: selections for people who read them, under the headings of their form."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from pollerd.texts import N_, _, n_
from pollerd.web.counts_form import (
    AS_JSON,
    CASED_LINES,
    ELEMENTS,
    TEXT_TESTS,
    VALUE_KINDS,
    WHICH_VALUE,
    ConditionRow,
    CountsForm,
    PartRow,
    ValueRow,
    form_of,
    text_of_pattern,
)

Paragraph = tuple[str, list[str]]
"""A heading, and the lines below it."""


def selections_in_words(settings: str) -> list[tuple[str, list[Paragraph]]]:
    """Returns each selection of a site by name, with what it says. settings: as a site has them; empty: none."""
    names = orjson.loads(settings) if settings else ()
    return [(name, list(_paragraphs(form_of(settings, name)))) for name in names]


def _paragraphs(form: CountsForm) -> Iterator[Paragraph]:
    kept = [_part(row) for row in form.keep]
    if form.optional:
        kept.append(_("A page without these parts is no failure, but a change"))
    paragraphs = (
        (_("Keep"), kept),
        (_("Ignore"), [_part(row) for row in form.ignore]),
        (_("Other steps"), [_step(orjson.loads(step)) for step in form.others]),
        (_("Values"), [*map(_value, form.values), *form.hidden_values]),
        (_("Alert me only if"), list(_conditions(form.conditions))),
        (_("A difference is no change below"), list(_least(form))),
    )
    yield from ((heading, lines) for heading, lines in paragraphs if lines)


def _part(row: PartRow) -> str:
    if row.how == ELEMENTS:
        return row.text
    lines = _("lines with {words}", words=_quoted(row.text))
    return _("{test}, upper and lower case as typed", test=lines) if row.how == CASED_LINES else lines


def _quoted(text: str) -> str:
    """Returns words in quotation marks; a regular expression has its slashes."""
    return text if re.fullmatch("/.+/", text, re.DOTALL) else f"“{text}”"


def _value(row: ValueRow) -> str:
    kind = _(VALUE_KINDS.get(row.kind, row.kind))
    place = _("attribute {attribute} of {source}", attribute=row.attribute, source=row.source)
    source = place if row.attribute else row.source or _("the kept text")
    said = _("{name}: {kind} from {source}", name=row.name, kind=kind, source=source)
    more = ["" if row.which == "only" else _(WHICH_VALUE.get(row.which, row.which)), row.currency]
    return ", ".join([said, *filter(None, more)])


def _conditions(rows: Iterable[ConditionRow]) -> Iterator[str]:
    for number, row in enumerate(rows):
        test = _condition(row)
        if number:
            test = _("or {test}", test=test) if row.join == "or" else _("and {test}", test=test)
        yield test


def _condition(row: ConditionRow) -> str:
    test = _test(row)
    if row.case:
        test = _("{test}, upper and lower case as typed", test=test)
    if row.since_alert:
        test = _("{test}, since the last alert", test=test)
    return _("unless {test}", test=test) if row.negated else test


_CLAUSES: Mapping[str, str] = {
    "appears": N_("{argument} appears"),
    "disappears": N_("{argument} disappears"),
    "added": N_("{argument} is in a new line"),
    "removed": N_("{argument} was in a line that is gone"),
    "present": N_("{argument} is on the page"),
    "absent": N_("{argument} is not on the page"),
    "additions": N_("{of} has any new line"),
    "removals": N_("{of} lost any line"),
    "additions_or_left": N_("{of} has any new line, or at most {argument} percent of the text is left"),
    "pure_additions": N_("{of} has only new lines"),
    "pure_removals": N_("{of} has only lost lines"),
    "new_in": N_("{of} has a line that is in none of the last {argument} versions"),
    "longer": N_("{of} has at least {argument} characters"),
    "shorter": N_("{of} has at most {argument} characters"),
    "chars": N_("{of} differs by at least {argument} characters"),
    "percent": N_("{of} differs by at least {argument} percent"),
    "crosses_below": N_("{of} falls below {argument}"),
    "crosses_above": N_("{of} rises above {argument}"),
    "below": N_("{of} is below {argument}"),
    "above": N_("{of} is above {argument}"),
    "equals": N_("{of} is {argument}"),
    "equals_text": N_("{of} is {argument}"),
    "changes_by": N_("{of} changes by at least {argument}"),
    "falls_by": N_("{of} falls by at least {argument}"),
    "rises_by": N_("{of} rises by at least {argument}"),
}
"""Each test of the form as a clause."""


def _test(row: ConditionRow) -> str:
    """Returns a test as a clause with what was typed."""
    if row.test == AS_JSON:
        return row.argument
    if (row.test, row.argument) == ("new_in", "all"):
        return _("the text has a line that is in none of its earlier versions")
    is_of_words = row.test in TEXT_TESTS
    argument = _quoted(row.argument) if is_of_words or row.test == "equals_text" else row.argument
    said = _(_CLAUSES[row.test], of=row.of or _("the text"), argument=argument)
    return _("{words}, in the value {name}", words=said, name=row.of) if is_of_words and row.of else said


def _least(form: CountsForm) -> Iterator[str]:
    if form.least_chars:
        yield n_("{count} character", "{count} characters", int(form.least_chars))
    if form.least_percent:
        yield _("{percent} percent of the text", percent=form.least_percent)


_STEPS: Mapping[tuple[str, str], str] = {
    ("space", "collapse"): N_("white space counts as one space"),
    ("space", "trim"): N_("white space around lines does not count"),
    ("space", "keep"): N_("white space counts"),
    ("case", "ignore"): N_("upper and lower case do not differ"),
    ("unique", "all"): N_("equal lines count once"),
    ("unique", "adjacent"): N_("equal lines that follow each other count once"),
    ("sort", "text"): N_("lines are sorted"),
    ("sort", "number"): N_("lines are sorted by their numbers"),
    ("sort", "reverse"): N_("lines are sorted, the last first"),
    ("sort", "reverse_order"): N_("the last line comes first"),
    ("as", "source"): N_("the source text is compared, not what a reader sees"),
    ("as", "bytes"): N_("the bytes are compared"),
}


def _step(step: Mapping[str, Any]) -> str:
    """Returns a step that the form has no fields for; as JSON if there are no words for it."""
    match step:
        case {"as": str(kind)} if ("as", kind) not in _STEPS:
            return _("the page is read as {kind}", kind=kind)
        case {"replace": {"with": str(text), **replaced}} if (shown := text_of_pattern(replaced)) is not None:
            return _("{words} is replaced by {text}", words=_quoted(shown[0]), text=f"“{text}”")
        case {"find": found} if (shown := text_of_pattern(found)) is not None:
            return _("only what fits {words} is kept, a line each", words=_quoted(shown[0]))
        case {"items": {"fields": [*names]}} if len(step["items"]) == 1:
            return _("of the items of a feed: {names}", names=", ".join(names))
        case {"text": {"links": "yes" | "absolute"}} if len(step["text"]) == 1:
            return _("the targets of links count")
    ((name, value), *more) = step.items()
    said = None if more or not isinstance(value, str) else _STEPS.get((name, value))
    return orjson.dumps(step).decode() if said is None else _(said)
