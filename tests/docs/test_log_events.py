"""Calls that log are as the table of events says. `WRITE_DOCS=1 pytest` of this file writes docs/log-events.md."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from pollerd.log_events import EVENTS, KEYS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/log-events.md"
LEVELS = {name: name for name in ("debug", "info", "warning", "error", "critical")} | {"exception": "error", "log": ""}
"""Methods of a logger -> the level; `log` takes it as its first argument."""
NOT_SHOWN = frozenset({"not_kept"})


class Call(NamedTuple):
    """A call that logs. bound: keys that the logger may have from `bind` in its module."""

    place: str
    event: str
    level: str
    keys: frozenset[str]
    bound: frozenset[str]


def is_logger(node: ast.expr) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    made = ast.unparse(node).startswith("structlog.get_logger(")
    return made or name.strip("_") in ("log", "logger")


def literals(node: ast.expr) -> list[str]:
    """The event's name; both of an `a if x else b`; none of a name that is worked out."""
    if isinstance(node, ast.IfExp):
        return [*literals(node.body), *literals(node.orelse)]
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []


def calls_of(source: str, place: str) -> Iterator[Call]:
    methods = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and is_logger(node.func.value)
    ]
    binds = [node for node in methods if isinstance(node.func, ast.Attribute) and node.func.attr == "bind"]
    bound = frozenset(word.arg or "**" for node in binds for word in node.keywords)
    for node in methods:
        assert isinstance(node.func, ast.Attribute)
        method = node.func.attr
        if method not in LEVELS:
            continue
        keys = {"exception" if word.arg == "exc_info" else word.arg or "**" for word in node.keywords}
        keys |= {"exception"} if method == "exception" else set()
        arguments = node.args[1:] if method == "log" else node.args
        names = literals(arguments[0]) if len(arguments) == 1 else []
        for name in names or ["(not a name)"]:
            yield Call(f"{place}:{node.lineno}", name, LEVELS[method], frozenset(keys) - NOT_SHOWN, bound)


def calls() -> list[Call]:
    files = sorted((ROOT / "pollerd").rglob("*.py"))
    return [call for path in files for call in calls_of(path.read_text(), str(path.relative_to(ROOT)))]


def faults(found: list[Call]) -> list[str]:
    """What in these calls is not as in the table."""
    wrong = []
    for call in found:
        event = EVENTS.get(call.event)
        if event is None:
            wrong.append(f"{call.place}: {call.event} is not in the table")
            continue
        if call.level and call.level not in event.level.split(", "):
            wrong.append(f"{call.place}: {call.event} is logged as {call.level}")
        more = call.keys - set(event.keys.split())
        if more:
            wrong.append(f"{call.place}: {call.event} has {', '.join(sorted(more))}")
    for name, event in EVENTS.items():
        its = [call for call in found if call.event == name]
        given = {key for call in its for key in call.keys | call.bound}
        missing = set(event.keys.split()) - given
        if missing or not its:
            wrong.append(f"{name}: no call has {', '.join(sorted(missing)) or 'this event'}")
    return wrong


def test_every_call_is_as_the_table_says() -> None:
    found = calls()
    assert len(found) > 120
    assert faults(found) == []


def test_the_keys_of_events_are_those_of_the_table_of_keys() -> None:
    used = {key for event in EVENTS.values() for key in event.keys.split()}
    assert used == set(KEYS)
    assert list(KEYS) == sorted(KEYS)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('log.info("nosuch")', "planted.py:1: nosuch is not in the table"),
        ('self._log.info("stopped", why="x")', "planted.py:1: stopped has why"),
        ('structlog.get_logger("x").error("stopped")', "planted.py:1: stopped is logged as error"),
        ('log.log(level, "stopped", **more)', "planted.py:1: stopped has **"),
        ("_log.warning(event)", "planted.py:1: (not a name) is not in the table"),
    ],
)
def test_a_planted_call_is_found(line: str, said: str) -> None:
    assert said in faults(list(calls_of(line, "planted.py")))


def test_an_event_that_is_logged_no_more_is_found() -> None:
    assert "started: no call has budget, listen, version" in faults(list(calls_of("", "planted.py")))
    assert "stopped: no call has this event" in faults(list(calls_of("", "planted.py")))


HEAD = """# Log events

pollerd logs to standard error, one line per event: as key=value, or as JSON with `--log-format json`. Each line has
`at` (UTC), `level` and `event`. `--log-level` is the lowest level that is logged. `tests/docs/test_log_events.py`
writes this page from `pollerd/log_events.py`.
"""


def page() -> str:
    events = [
        f"| `{name}` | {event.level} | {event.meaning} | {', '.join(f'`{key}`' for key in event.keys.split())} |"
        for name, event in sorted(EVENTS.items())
    ]
    keys = [f"| `{name}` | {key.meaning} | {key.before} |" for name, key in KEYS.items()]
    renamed = [f"| {event.before} | `{name}` |" for name, event in sorted(EVENTS.items()) if event.before]
    parts = [
        HEAD,
        "## Events\n",
        *("| event | level | meaning | keys |", "|---|---|---|---|", *events),
        "\n## Keys\n",
        *("| key | meaning | earlier names |", "|---|---|---|", *keys),
        "\n## Events with a new name\n",
        *("| before | now |", "|---|---|", *renamed),
    ]
    return "\n".join(parts) + "\n"


def test_the_page_is_the_table() -> None:
    if os.environ.get("WRITE_DOCS"):
        PAGE.write_text(page())
        pytest.skip("the page was written")
    assert PAGE.read_text() == page()
