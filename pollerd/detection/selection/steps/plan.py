"""The steps of one selection, in the order in which they act.

They have phases: how the body is read, what is removed, what is kept, how its text is written, lines, and last white
space, case and order. Within a phase steps act in the order in which they are listed; a step of an earlier phase after
a later one is refused, because it would not act where it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pollerd.detection.selection.document import known_table, one_of, one_or_more, shown
from pollerd.detection.selection.expressions.css import CssSelector
from pollerd.detection.selection.steps import lines
from pollerd.detection.selection.steps.documents import FeedItems, compile_items
from pollerd.detection.selection.steps.page import Expression, Keep, compile_keep, compile_removals
from pollerd.errors import InvalidValueError
from pollerd.texts import _

STEPS_MAX = 100
READ_AS = ("auto", "html", "text", "json", "xml", "feed", "pdf", "source", "bytes")
LINKS = ("no", "yes", "absolute")
CELLS = ("space", "tab")
_PHASES = ("as", "remove", "keep", "text", "lines", "order")
PHASE_OF = {
    "as": 0,
    "remove": 1,
    "keep": 2,
    "items": 2,
    "text": 3,
    "lines": 4,
    "replace": 4,
    "find": 4,
    "space": 5,
    "case": 5,
    "unique": 5,
    "sort": 5,
}
"""Step -> its phase, as an index into `_PHASES`."""
_TEXT_STEPS: Mapping[str, Callable[[str, object], lines.TextStep]] = {
    "lines": lines.lines_step,
    "replace": lines.replace_step,
    "find": lines.find_step,
    "space": lines.space_step,
    "case": lines.case_step,
    "unique": lines.unique_step,
    "sort": lines.sort_step,
}
_FITTING = {"css": ("auto", "html"), "xpath": ("auto", "html", "xml"), "jsonpath": ("auto", "json")}
"""Kind of expression -> ways of reading that it fits."""


@dataclass(slots=True)
class SelectionPlan:
    """Compiled steps."""

    read_as: str = "auto"
    removals: list[Expression] = field(default_factory=list)
    keeps: list[Keep] = field(default_factory=list)
    feed_items: FeedItems | None = None
    links: str = "no"
    cells: str = "space"
    text_steps: list[lines.TextStep] = field(default_factory=list)
    searching: bool = False
    """Whether a step looks for all places that fit a pattern, which may take long even on a small page."""
    narrowing: bool = False
    """Whether a step on text may leave nothing: `find`, or `lines` that keep some."""
    warnings: list[str] = field(default_factory=list)
    """What is allowed but probably not meant, a line each."""
    optional: bool = False
    """Whether nothing left is a state of the page: a step says so, or items of a feed are chosen."""


def compile_plan(field_name: str, value: object) -> SelectionPlan:
    """Compiles a list of steps, each a table of one step. Raises InvalidValueError with the position."""
    plan = SelectionPlan()
    phase, before = 0, ""
    steps = one_or_more(field_name, value, STEPS_MAX) if value != [] else []
    for i, step in enumerate(steps):
        at = f"{field_name}[{i}]"
        name = _name_of(at, step)
        if PHASE_OF[name] < phase:
            why = _(
                "before {before}: {name} acts on {phases}, {before} on what is left of it",
                before=before,
                name=name,
                phases=_PHASES[PHASE_OF[name]],
            )
            raise InvalidValueError(f"{at}.{name}", _("listed {why}", why=why), shown(step[name]))
        phase, before = PHASE_OF[name], f"{field_name}[{i}].{name}"
        _add(plan, at, name, step)
    _check(plan, field_name)
    for expression in [
        *plan.removals,
        *(keep_expression for keep in plan.keeps for keep_expression in keep.expressions),
    ]:
        if isinstance(expression, CssSelector):
            plan.warnings += [f"{expression.field}: {warning}" for warning in expression.warnings]
    return plan


def _name_of(at: str, step: object) -> str:
    if not isinstance(step, Mapping):
        raise InvalidValueError(at, _("a table with one of {phase_of}", phase_of=", ".join(PHASE_OF)), shown(step))
    names = [str(name) for name in step if name in PHASE_OF]
    if len(names) != 1:
        raise InvalidValueError(
            at, _("a table with exactly one of {phase_of}", phase_of=", ".join(PHASE_OF)), ", ".join(map(str, step))
        )
    more = ("optional", "skip", "limit") if names[0] == "keep" else ("optional",) if names[0] in _NARROWING else ()
    known_table(at, step, (names[0], *more))
    return names[0]


_NARROWING = ("lines", "find", "items")


def _add(plan: SelectionPlan, at: str, name: str, step: Mapping[str, Any]) -> None:
    plan.optional |= step.get("optional") is True
    match name:
        case "as":
            plan.read_as = one_of(f"{at}.as", step["as"], READ_AS)
        case "remove":
            plan.removals += compile_removals(f"{at}.remove", step["remove"])
        case "keep":
            plan.keeps.append(compile_keep(at, step))
        case "items":
            if plan.feed_items is not None:
                raise InvalidValueError(f"{at}.items", _("given once"), _("a second items step"))
            plan.feed_items = compile_items(f"{at}.items", step["items"])
        case "text":
            _add_text(plan, f"{at}.text", step["text"])
        case _:
            plan.searching |= name in ("replace", "find")
            plan.narrowing |= name == "find" or (name == "lines" and "keep" in step["lines"])
            plan.text_steps.append(_TEXT_STEPS[name](f"{at}.{name}", step[name]))


def _add_text(plan: SelectionPlan, at: str, value: object) -> None:
    fields = known_table(at, value, ("links", "cells"))
    if not fields:
        raise InvalidValueError(at, _("a table with links or cells"), _("an empty table"))
    if "links" in fields:
        plan.links = one_of(f"{at}.links", fields["links"], LINKS)
    if "cells" in fields:
        plan.cells = one_of(f"{at}.cells", fields["cells"], CELLS)


def _check(plan: SelectionPlan, at: str) -> None:
    """Refuses steps that do not fit how the body is read, or each other."""
    for kinds, where in [(_kinds(plan.removals), "remove"), *((keep.kinds, keep.field) for keep in plan.keeps)]:
        for kind in kinds:
            if plan.read_as not in _FITTING[kind]:
                allowed = " or ".join(_FITTING[kind])
                raise InvalidValueError(
                    f"{at}: {where}",
                    _("without {kind}, which fits {allowed}", kind=kind, allowed=allowed),
                    str(plan.read_as),
                )
    if plan.feed_items is not None:
        if plan.read_as not in ("auto", "feed"):
            raise InvalidValueError(f"{at}: items", _("of a feed: as auto or feed"), str(plan.read_as))
        if plan.keeps or plan.removals:
            raise InvalidValueError(f"{at}: items", _("without keep and remove, which fit pages"), "both")
    used = _kinds(plan.removals) | {kind for keep in plan.keeps for kind in keep.kinds}
    if "jsonpath" in used and len(used) > 1:
        raise InvalidValueError(at, _("css and xpath for pages, or jsonpath for JSON"), ", ".join(sorted(used)))
    for earlier, later in zip(plan.keeps, plan.keeps[1:], strict=False):
        if len(earlier.kinds | later.kinds) > 1:
            allowed = _("of the same kind as the keep step before it: one acts on what the other kept")
            raise InvalidValueError(f"{later.field}.keep", allowed, ", ".join(sorted(later.kinds)))


def _kinds(expressions: list[Expression]) -> frozenset[str]:
    from pollerd.detection.selection.steps.page import kind_of

    return frozenset(map(kind_of, expressions))
