"""One filter of a job, while it is being converted: its parameters, of which none may be dropped silently."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pollerd.moving.draft import Draft, Step
from pollerd.moving.patterns import lacking
from pollerd.moving.urlwatch.dialect import Dialect
from pollerd.texts import _

UNNAMED = {
    "css": "selector",
    "xpath": "path",
    "html2text": "method",
    "grep": "re",
    "grepi": "re",
    "re.sub": "pattern",
    "element-by-id": "id",
    "element-by-class": "class",
    "element-by-style": "style",
    "element-by-tag": "tag",
    "re.findall": "pattern",
    "sort": "separator",
    "reverse": "separator",
    "remove-duplicate-lines": "separator",
    "remove_repeated": "separator",
    "keep_lines_containing": "text",
    "delete_lines_containing": "text",
    "strip": "chars",
    "jq": "query",
    "shellpipe": "command",
    "execute": "command",
    "csv2text": "format_message",
    "pypdf": "password",
    "pdf2text": "password",
    "format-json": "indentation",
    "jsontoyaml": "indentation",
    "pretty-xml": "indentation",
    "format-xml": "indentation",
    "beautify": "indent",
    "ocr": "language",
}
"""Filter -> the parameter that is meant when only a value is given."""


@dataclass(slots=True)
class FilterCall:
    """A filter with its parameters."""

    draft: Draft
    key: str
    kind: str
    given: dict[str, object]
    dialect: Dialect
    used: set[str] = field(default_factory=set)
    settled: bool = False

    def take(self, name: str, default: object = None) -> object:
        """Returns a parameter, which counts as used."""
        self.used.add(name)
        value = self.given.get(name)
        return default if value is None else value

    def text(self, name: str) -> str:
        """Returns a parameter that must be a text; empty, if it is none."""
        value = self.take(name, "")
        return value if isinstance(value, str) else str(value) if isinstance(value, int | float) else ""

    def pattern(self, name: str) -> str | None:
        """Returns a regular expression; None, with a line, if RE2 cannot run it."""
        pattern = self.text(name)
        wrong = lacking(pattern) if pattern else _("is missing")
        if wrong is not None:
            self.not_carried(f"{name}: {wrong}")
        return pattern if wrong is None else None

    def step(self, step: Step, how: str = "") -> None:
        """Adds a step; `how`: in what it differs."""
        self.draft.add_step(self.key, step)
        self.approximated(how) if how else self.carried()

    def carried(self) -> None:
        """The filter is carried over."""
        self._settle(lambda: self.draft.report.carried(self.key))

    def approximated(self, how: str) -> None:
        """The filter is carried over, but acts otherwise."""
        self._settle(lambda: self.draft.report.approximated(self.key, how))

    def not_carried(self, why: str) -> None:
        """The filter is lost, with all parameters."""
        self.used.update(self.given)
        self._settle(lambda: self.draft.report.not_carried(self.key, why))

    def nothing_needed(self, why: str) -> None:
        """Nothing follows from the filter here."""
        self.used.update(self.given)
        self._settle(lambda: self.draft.report.nothing_said(self.key, why))

    def finish(self) -> None:
        """Names the parameters that no one used."""
        for name in self.given:
            if name not in self.used:
                self.draft.report.not_carried(f"{self.key}.{name}", _("this parameter has no counterpart"))

    def _settle(self, say: Callable[[], None]) -> None:
        self.settled = True
        say()


Handler = Callable[[FilterCall], None]


def as_mapping(kind: str, value: object) -> dict[str, object]:
    """Returns the parameters of a filter by name."""
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return {str(name): entry for name, entry in value.items()}
    return {UNNAMED.get(kind, "value"): value}
