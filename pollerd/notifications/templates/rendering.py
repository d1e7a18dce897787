"""Renders a template of a user. Pure, and bounded in steps and sizes; time and memory are the caller's to bound.

A template may still take long within its bounds, so it belongs into a process with a limit of time and of memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import TracebackType
from typing import Any

from jinja2 import Template, TemplateSyntaxError
from jinja2.exceptions import SecurityError

from pollerd.notifications.messages.escaping import Medium
from pollerd.notifications.messages.plain import one_line
from pollerd.notifications.templates.bounds import MOST_CHARACTERS, LoopSteps
from pollerd.notifications.templates.context import NAMES
from pollerd.notifications.templates.error import TemplateError
from pollerd.notifications.templates.sandbox import GLOBALS, sandbox_for
from pollerd.notifications.templates.syntax import STEPS, Bounding, check_syntax

LONGEST_TEMPLATE = 20_000
_LONGEST_REASON = 300
_FILES = frozenset({"<template>", "<unknown>"})


def check(template: str) -> None:
    """Raises TemplateError if the template can never be rendered: with the line, and what is wrong there."""
    _compiled(template, Medium.TEXT)


def render(template: str, medium: Medium, context: Mapping[str, Any], most: int = MOST_CHARACTERS) -> str:
    """Returns what a template makes of a context (see `context_of`), values escaped for the medium.

    Raises TemplateError: it fails, a value is missing, or it renders more than `most` characters.
    """
    compiled = _compiled(template, medium)
    pieces: list[str] = []
    length = 0
    try:
        for piece in compiled.generate({**context, STEPS: LoopSteps()}):
            length += len(piece)
            if length > most:
                raise TemplateError(f"it renders more than {most:,} characters")
            pieces.append(piece)
    except TemplateError as error:
        raise TemplateError(error.reason, error.line or _line_of(error.__traceback__)) from None
    except Exception as error:  # noqa: BLE001 - whatever a template does is an error of the template
        raise TemplateError(_reason(error), _line_of(error.__traceback__)) from None
    return "".join(pieces)


@lru_cache(maxsize=64)
def _compiled(template: str, medium: Medium) -> Template:
    if len(template) > LONGEST_TEMPLATE:
        raise TemplateError(f"longer than {LONGEST_TEMPLATE:,} characters")
    sandbox = sandbox_for(medium)
    try:
        tree = sandbox.parse(template)
        check_syntax(tree, (*NAMES, *GLOBALS))
        return sandbox.from_string(Bounding().visit(tree))
    except TemplateSyntaxError as error:
        raise TemplateError(one_line(error.message or "not understood", _LONGEST_REASON), error.lineno) from None
    except (RecursionError, MemoryError, SyntaxError, ValueError, OverflowError) as error:
        raise TemplateError(f"nested too deep, or a number that is too long ({type(error).__name__})") from None


def _reason(error: Exception) -> str:
    if isinstance(error, SecurityError):
        return one_line(f"not allowed: {error}", _LONGEST_REASON)
    if isinstance(error, MemoryError | RecursionError):
        return f"it takes too much memory ({type(error).__name__})"
    return one_line(str(error) or type(error).__name__, _LONGEST_REASON)


def _line_of(traceback: TracebackType | None) -> int | None:
    """Returns the line of the template in which an error arose."""
    line = None
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename in _FILES:
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line
