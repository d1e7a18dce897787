"""[C]'s crawler and our extensions, as in papers/robot.md."""

from __future__ import annotations

from collections.abc import Iterator

from doc_tables.layouts.spot import Spot, TablePlace, filled
from doc_tables.pages import DocTable
from doc_tables.printed_numbers import numbers_in

_TRAVERSALS = {
    "robot after 30 traversals": ("robot", "after 30"),
    "robot after 1": ("robot", "after 1"),
    'robot, passive value "best", after 30': ("robot, best passive value", "after 30"),
    "passed by the robot in traversal": ("robot", "passes fringe-greedy after"),
    "random, 1,000 schedules": ("random", "after 30"),
}
_ROWS = {
    "robot-unseen": {
        "features, trained on webs of the other kind": "features, trained on the other kind",
        "fringe-greedy, which is told": "fringe-greedy",
    },
    "robot-upkeep": {
        'robot, passive value "best"': "robot, features",
        'robot, passive value "followed"': "robot, features, learned passive value",
        "fringe first, then all in turn": "fringe first, then in turn",
        "a tenth fringe, else in turn": "tenth fringe, else in turn",
    },
    "robot-fetchers": {
        "learned, from its first second": "learned",
        "the policy that it starts from": "learner's starting policy",
    },
}
_COLUMNS = {"all requests": "all", "cost per second": "cost", "mean queue": "queue"}


def traversals(table: DocTable) -> Iterator[Spot]:
    """Yields schedules in rows, kinds of web in columns; a row of the page may be a column of the experiment."""
    for row, column, text in filled(table):
        if column != "printed" and numbers_in(text):
            own, when = _TRAVERSALS.get(row, (row, "after 30"))
            yield Spot(row, column, text, TablePlace("robot", own, f"{column} {when}"))


def schedules(table: DocTable) -> Iterator[Spot]:
    """Yields schedules or controllers in rows, scores in columns."""
    (name,) = table.experiments
    for row, column, text in filled(table):
        yield Spot(row, column, text, TablePlace(name, _ROWS[name].get(row, row), _COLUMNS.get(column, column)))
