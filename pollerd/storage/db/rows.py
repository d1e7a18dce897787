"""Statements for many rows: SQLite runs them row by row, PostgreSQL once, with each column of the rows as an array.

To SQLite a row more is a function call. To PostgreSQL it is a message, a portal and a plan begun and ended: as arrays
the rows of a batch are one of each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ARRAY, Connection, bindparam, column, func
from sqlalchemy.types import TypeEngine

Row = tuple[Any, ...]


@dataclass(frozen=True)
class ForEachRow:
    """One statement, to be run by `run_each` for rows of parameters in the order that it was compiled for."""

    sql: str
    at_once: bool
    """Takes columns, not rows."""
    key: tuple[int, ...] = ()
    """Places of the parameters that name the row which is written; without it all rows are new."""

    def parameters(self, rows: Sequence[Row]) -> Iterator[Any]:
        """What it is to be run with, one after the other."""
        if not self.at_once:
            yield rows
            return
        for some in self._without_repeats(rows):
            yield tuple(map(list, zip(*some, strict=True)))

    def _without_repeats(self, rows: Sequence[Row]) -> Sequence[Sequence[Row]]:
        """One statement writes a row once: those that come again wait for the next, so that the last one holds."""
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
    """Runs the statement for each of the rows, nothing for none; what it gives for them all, if anything."""
    given: list[Row] = []
    for parameters in statement.parameters(rows) if rows else ():
        result = connection.exec_driver_sql(statement.sql, parameters)
        if result.returns_rows:
            given += map(tuple, result)
    return given


def columns_of(types: Mapping[str, TypeEngine[Any]]) -> Any:
    """A table `given` with these columns, in order, each from a parameter of its name that holds an array."""
    arrays = [bindparam(name, type_=ARRAY(kind)) for name, kind in types.items()]
    named = [column(name, kind) for name, kind in types.items()]
    return func.unnest(*arrays).table_valued(*named, name="given").render_derived(name="given")
