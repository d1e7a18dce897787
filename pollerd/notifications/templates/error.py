"""The error of a template."""

from __future__ import annotations

from pollerd.errors import PermanentError


class TemplateError(PermanentError):
    """A template cannot be used, or fails. line: where, from 1; None: it concerns the whole."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(f"template: {reason}" if line is None else f"template, line {line}: {reason}")
        self.reason, self.line = reason, line

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.reason, self.line))
