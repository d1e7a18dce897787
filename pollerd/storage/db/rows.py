"""Statements for many rows: SQLite runs them row by row, PostgreSQL once, with each column as an array.

For SQLite each row is a function call. For PostgreSQL it would be a message, a portal and a plan; with arrays a whole
batch needs one of each.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import ARRAY, Connection, bindparam, column, func
from sqlalchemy.types import TypeEngine

Row = tuple[Any, ...]
_PLACE = re.compile(r"\$(\d+)")


@dataclass(frozen=True)
class ForEachRow:
    """One statement that `run_each` runs for rows of parameters in its compiled order."""

    sql: str
    at_once: bool
    """Whether it takes columns instead of rows."""
    key: tuple[int, ...] = ()
    """Positions of the parameters that identify the written row; empty: all rows are new."""

    def parameters(self, rows: Sequence[Row]) -> Iterator[Any]:
        """Yields the parameters of each execution."""
        if not self.at_once:
            yield rows
            return
        for some in self._without_repeats(rows):
            yield tuple(map(list, zip(*some, strict=True)))

    def _without_repeats(self, rows: Sequence[Row]) -> Sequence[Sequence[Row]]:
        """Splits rows so that no statement writes a row twice: repeated rows go to the next, and the last one wins."""
        if not self.key:
            return [rows]
        seen: defaultdict[Row, int] = defaultdict(int)
        batches: list[list[Row]] = []
        for row in rows:
            name = tuple(row[place] for place in self.key)
            if seen[name] == len(batches):
                batches.append([])
            batches[seen[name]].append(row)
            seen[name] += 1
        return batches


def run_each(connection: Connection, statement: ForEachRow, rows: Sequence[Row]) -> list[Row]:
    """Runs the statement for each row, if any; returns all rows that it returns."""
    given: list[Row] = []
    for parameters in statement.parameters(rows) if rows else ():
        result = connection.exec_driver_sql(statement.sql, parameters)
        if result.returns_rows:
            given += map(tuple, result)
    return given


def run_together(connection: Connection, *writes: tuple[ForEachRow, Sequence[Row]]) -> list[Row]:
    """Runs several statements, each for its rows; returns the rows that the last one returns.

    On PostgreSQL they are one statement, and one round trip, unless a row of a table is written twice. No two of them
    may write to one table, and none sees what another writes; only the last may return rows.
    """
    given = [(statement, rows) for statement, rows in writes if rows]
    executions = [(statement, list(statement.parameters(rows))) for statement, rows in given]
    if not all(statement.at_once and len(parameters) == 1 for statement, parameters in executions):
        return ([run_each(connection, statement, rows) for statement, rows in writes] or [[]])[-1]
    if not executions:
        return []
    sql = _in_one(tuple(statement.sql for statement, _ in executions))
    values = tuple(column for _, [columns] in executions for column in columns)
    result = connection.exec_driver_sql(sql, values)
    returns = given[-1][0] is writes[-1][0] and result.returns_rows
    return list(map(tuple, result)) if returns else []


@lru_cache(maxsize=256)
def _in_one(statements: tuple[str, ...]) -> str:
    """Returns PostgreSQL statements as one: all but the last in its WITH, their parameters numbered through."""
    numbered, before = [], 0
    for statement in statements:
        places = [int(place) for place in _PLACE.findall(statement)]
        numbered.append(_PLACE.sub(lambda found, before=before: f"${int(found[1]) + before}", statement))  # type: ignore[misc]
        before += max(places)
    *others, last = numbered
    parts = ", ".join(f"part_{n} AS ({one})" for n, one in enumerate(others))
    return f"WITH {parts} {last}" if others else last


def columns_of(types: Mapping[str, TypeEngine[Any]]) -> Any:
    """Returns a table `given` with these columns, in order, each from an array parameter of its name."""
    arrays = [bindparam(name, type_=ARRAY(kind)) for name, kind in types.items()]
    named = [column(name, kind) for name, kind in types.items()]
    return func.unnest(*arrays).table_valued(*named, name="given").render_derived(name="given")
