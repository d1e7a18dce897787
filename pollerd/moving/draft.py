"""One job or watch on its way to a site: the fields of the site, and one selection of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pollerd.moving.moved import SourceReport
from pollerd.moving.selectors import css_as_xpath, xpath_within
from pollerd.texts import _

Step = dict[str, object]
Condition = dict[str, object]

PHASES = {
    "as": 0,
    "remove": 1,
    "keep": 2,
    "items": 2,
    "text": 3,
    "lines": 4,
    "replace": 4,
    "find": 4,
    "space": 5,
    "case": 6,
    "unique": 7,
    "sort": 8,
}
"""Steps in the order in which they are written: finer than the phases of a selection, and never against them."""

WHOLE_TEXT = 5
"""Phase from which steps act on the whole text, and their order among each other does not matter."""


@dataclass(slots=True)
class Draft:
    """A site that is being made; `report` tells what becomes of its keys."""

    report: SourceReport
    url: str = ""
    name: str = ""
    """For its selection, where the URL has several."""
    fields: dict[str, object] = field(default_factory=dict)
    """Fields of the site besides url and selections."""
    steps: list[tuple[str, Step]] = field(default_factory=list)
    """(key that it comes from, step)."""
    values: dict[str, object] = field(default_factory=dict)
    conditions: list[Condition] = field(default_factory=list)
    reads_xml: bool = False
    """Whether a filter reads the document as XML."""
    is_left_out: bool = False
    """Whether no site is made of it."""
    any_of: bool = False
    """Whether one of the conditions is enough."""

    @property
    def has_media(self) -> bool:
        """Whether a step says what kind of document it is."""
        return any("as" in step for _key, step in self.steps)

    def add_step(self, key: str, step: Step) -> None:
        """Adds a step; steps are put in the order of their phases at the end."""
        self.steps.append((key, step))

    def selection(self) -> dict[str, object]:
        """Returns the selection; reports each step that acts earlier than where it was written."""
        selection: dict[str, object] = {}
        ordered = self._as_pages(sorted(self._distinct(), key=lambda pair: phase(pair[1])))
        for key in self._moved_forward():
            self.report.approximated(key, _("acts earlier here than where it stands: elements, then lines, then space"))
        if ordered:
            selection["steps"] = [step for _key, step in ordered]
        if self.values:
            selection["values"] = self.values
        if self.conditions:
            selection["conditions"] = {"any" if self.any_of else "all": self.conditions}
        return selection

    def _distinct(self) -> list[tuple[str, Step]]:
        """Returns the steps without a second `as`, and without repeats of what acts on the whole text."""
        steps, seen = list[tuple[str, Step]](), list[object]()
        for key, step in self.steps:
            mark: object = "as" if "as" in step else step if phase(step) >= WHOLE_TEXT else None
            if mark is None or mark not in seen:
                steps.append((key, step))
            elif mark == "as":
                self.report.not_carried(
                    key, _("a selection reads a document in one way, and an earlier filter says how")
                )
            seen.append(mark)
        return steps

    def _as_pages(self, steps: list[tuple[str, Step]]) -> list[tuple[str, Step]]:
        """Returns the steps so that each keep step takes what the one before kept for its whole page.

        They are in one language then: XPath, unless all are CSS.
        """
        picked = [keep for _key, step in steps if isinstance(keep := step.get("keep"), Mapping)]
        by_xpath = any("xpath" in keep for keep in picked)
        planned, first = list[tuple[str, Step]](), True
        for key, step in steps:
            keep = step.get("keep")
            if by_xpath and isinstance(keep, Mapping) and ("css" in keep or "xpath" in keep):
                path = str(keep["xpath"]) if "xpath" in keep else css_as_xpath(str(keep["css"]))
                path = path if first or path is None or "css" in keep else xpath_within(path)
                if path is None:
                    self.report.lost_after_all(
                        key, _("cannot be written as an XPath for what the filter before it keeps")
                    )
                    continue
                step = {**step, "keep": {"xpath": path}}
            first = first and keep is None
            planned.append((key, step))
        return planned

    def _moved_forward(self) -> list[str]:
        latest, moved = 0, list[str]()
        for key, step in self.steps:
            if "as" in step:  # how a document is read stands first wherever it is said
                continue
            now = phase(step)
            if now < latest and min(now, WHOLE_TEXT) < min(latest, WHOLE_TEXT):
                moved.append(key)
            latest = max(latest, now)
        return moved


def phase(step: Step) -> int:
    """Returns the phase of a step, by its first known key."""
    return next(PHASES[name] for name in step if name in PHASES)
