"""Steps on text: lines kept and dropped, replacement, extraction, white space, case, repetition, order."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from pollerd.detection.selection.document import known_table, one_of, one_or_more
from pollerd.detection.selection.expressions.pattern import Pattern, compile_pattern, compile_replacement
from pollerd.errors import InvalidValueError
from pollerd.texts import _

TextStep = Callable[[str], str]
"""Turns the selected text into another; lines end with a newline, except the last."""
PATTERNS_MAX = 100
"""Most patterns of one step."""
_RUNS = re.compile(r"[^\S\n]+")
_NUMBER = re.compile(r"-?\d+(?:[.,]\d+)*")


def lines_step(field: str, value: object) -> TextStep:
    """Compiles `{"keep": [patterns], "drop": [patterns]}`.

    A line stays if it fits any pattern of `keep`, where there are some, and none of `drop`. Raises InvalidValueError.
    """
    fields = known_table(field, value, ("keep", "drop"))
    if not fields:
        raise InvalidValueError(field, _("a table with keep, drop or both"), _("an empty table"))
    keep = _patterns(f"{field}.keep", fields["keep"]) if "keep" in fields else None
    drop = _patterns(f"{field}.drop", fields["drop"]) if "drop" in fields else ()

    def step(text: str) -> str:
        return "\n".join(
            line
            for line in text.split("\n")
            if (keep is None or any(pattern.search(line) for pattern in keep))
            and not any(pattern.search(line) for pattern in drop)
        )

    return step


def replace_step(field: str, value: object) -> TextStep:
    r"""Compiles `{"re" or "text": pattern, "with": replacement}`; `\1` in it is a group. Raises InvalidValueError."""
    fields = known_table(field, value, ("re", "text", "case", "with"))
    pattern = _pattern(field, fields)
    replacement = compile_replacement(f"{field}.with", _with(field, fields, ""), pattern)
    return lambda text: pattern.sub(replacement, text)


def find_step(field: str, value: object) -> TextStep:
    r"""Compiles `{"re" or "text": pattern, "with": "\1"}`: all that fits, a line each; or a list of them, one after the
    other. Raises InvalidValueError.
    """
    finders = []
    many = isinstance(value, list)
    for i, definition in enumerate(one_or_more(field, value, PATTERNS_MAX)):
        at = f"{field}[{i}]" if many else field
        fields = known_table(at, definition, ("re", "text", "case", "with"))
        pattern = _pattern(at, fields)
        finders.append((pattern, compile_replacement(f"{at}.with", _with(at, fields, r"\g<0>"), pattern)))

    def step(text: str) -> str:
        return "\n".join(
            replacement.expand(match) for pattern, replacement in finders for match in pattern.finditer(text)
        )

    return step


def space_step(field: str, value: object) -> TextStep:
    """Compiles `collapse` (runs to one space), `trim` (of each line) or `keep`; the first two drop empty lines."""
    return {"collapse": _collapsed, "trim": _trimmed, "keep": _as_it_is}[
        one_of(field, value, ("collapse", "trim", "keep"))
    ]


def case_step(field: str, value: object) -> TextStep:
    """Compiles `ignore`: upper and lower case are the same."""
    one_of(field, value, ("ignore",))
    return str.casefold


def unique_step(field: str, value: object) -> TextStep:
    """Compiles `all` (each line once) or `adjacent` (no line twice in a row)."""
    return {"all": _unique, "adjacent": _without_repeats}[one_of(field, value, ("all", "adjacent"))]


def sort_step(field: str, value: object) -> TextStep:
    """Compiles `text` (any case), `number` (first number of a line), `reverse` (`text`, descending) or `reverse_order`
    (the last line first).
    """
    orders: Mapping[str, Callable[[list[str]], list[str]]] = {
        "text": lambda lines: sorted(lines, key=_by_text),
        "number": lambda lines: sorted(lines, key=_by_number),
        "reverse": lambda lines: sorted(lines, key=_by_text, reverse=True),
        "reverse_order": lambda lines: lines[::-1],
    }
    order = orders[one_of(field, value, tuple(orders))]
    return lambda text: "\n".join(order(text.split("\n")))


def _patterns(field: str, value: object) -> tuple[Pattern, ...]:
    many = isinstance(value, list)
    return tuple(
        compile_pattern(f"{field}[{i}]" if many else field, pattern)
        for i, pattern in enumerate(one_or_more(field, value, PATTERNS_MAX))
    )


def _pattern(field: str, fields: Mapping[str, Any]) -> Pattern:
    return compile_pattern(field, {key: value for key, value in fields.items() if key != "with"})


def _with(field: str, fields: Mapping[str, Any], default: str) -> str:
    template = fields.get("with", default)
    if not isinstance(template, str):
        raise InvalidValueError(f"{field}.with", _("a text"), repr(template))
    return template


def _collapsed(text: str) -> str:
    return _trimmed(_RUNS.sub(" ", text))


def _trimmed(text: str) -> str:
    return "\n".join(line for each in text.split("\n") if (line := each.strip()))


def _as_it_is(text: str) -> str:
    return text


def _unique(text: str) -> str:
    return "\n".join(dict.fromkeys(text.split("\n")))


def _without_repeats(text: str) -> str:
    lines = text.split("\n")
    return "\n".join(line for i, line in enumerate(lines) if not i or line != lines[i - 1])


def _by_text(line: str) -> tuple[str, str]:
    return line.casefold(), line


def _by_number(line: str) -> tuple[bool, float, str]:
    """Sorts by the first number, "." or "," as its decimal sign; lines without one come last."""
    match = _NUMBER.search(line)
    if match is None:
        return True, 0.0, line
    whole, *rest = re.split("[.,]", match[0][:30])
    return False, float(f"{whole}.{''.join(rest)}") if rest else float(whole), line
