"""Sentences that the program raises or prints are texts of the catalogue."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from wording import strings

import pollerd
from tests.support.pseudo import catalogue

ROOT = Path(pollerd.__file__).parent
SAYING = frozenset(
    {
        "echo",
        "refusal",
        "refuse",
        "not_carried",
        "CheckResult",
        "Receipt",
        "Trouble",
        "Rejection",
        "BadParameter",
        "fail",
    }
)
"""Names of functions that say something, besides those of errors."""
NAMES = frozenset({"loop lag", "sites of nodes"})
"""Names of checks of `doctor`, which programs read."""
OF_PROGRAMMERS = (
    "lab/",
    "allocation/",
    "columns.py",
    "log_events.py",
    "telemetry.py",
    "crawler/",
    "app/demo_web.py",
    "fetching/client.py",
    "storage/statements.py",
    "daemon/nodes/questions.py",
    "detection/noise/mask.py",
    "rendering/reading.py",
    "notifications/channels/apprise_fence.py",
)
"""Rooms whose errors are for programmers: what users give is checked before. The lab's texts name experiments as the
papers and its reports do, which are in English."""


def said(tree: ast.Module) -> Iterator[ast.expr]:
    """Yields the arguments of calls that say something."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", "") or getattr(node.func, "id", "")
            if name in SAYING or name.endswith("Error"):
                yield from node.args
                yield from (keyword.value for keyword in node.keywords)


def modules() -> Iterator[tuple[str, str]]:
    """Yields each module of the program: its place, its source."""
    for path in sorted(ROOT.rglob("*.py")):
        yield str(path.relative_to(ROOT)), path.read_text()


def test_sentences_that_are_said_are_in_the_catalogue() -> None:
    left = []
    known = catalogue() | NAMES
    for place, source in modules():
        if place.startswith(OF_PROGRAMMERS):
            continue
        lines = {
            line
            for argument in said(ast.parse(source))
            for line in range(argument.lineno, (argument.end_lineno or argument.lineno) + 1)
        }
        here = [text for text in strings(source, place) if int(text.place.rpartition(":")[2]) in lines]
        left += [(text.place, text.text) for text in here if text.text not in known]
    assert left == []


def test_values_that_are_counted_in_errors_are_in_the_catalogue() -> None:
    """Such as `n_("{count} tag", "{count} tags", number)`, not f"{number} tags"."""
    left = [
        f"{place}:{node.lineno}: {ast.unparse(node.args[2])}"
        for place, source in modules()
        if not place.startswith(OF_PROGRAMMERS)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "InvalidValueError" and len(node.args) > 2
        if isinstance(node.args[2], ast.JoinedStr)
        if any(
            isinstance(part, ast.Constant) and re.search("[a-z]{2}", str(part.value)) for part in node.args[2].values
        )
    ]
    assert left == []


def test_every_text_of_a_module_was_found_by_the_extraction() -> None:
    """It does not see those inside of an f-string."""
    left = [
        (place, argument.value)
        for place, source in modules()
        if not place.startswith("lab/")
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("_", "N_", "n_")
        for argument in node.args[:2]
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str) and argument.value
        if argument.value not in catalogue()
    ]
    assert left == []
