"""Reads and updates the link context of frontier pages: parents, link texts, siblings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Executable, func, select, update

from pollerd.storage.db.rows import ForEachRow, run_each
from pollerd.storage.db.schema.crawler import page, page_link
from pollerd.storage.db.statements import ColumnSource, Statements, run
from pollerd.storage.page_values import PageRow

FIRST_VALUE = 1e3
"""Above the value of any page valued by its links: seeds come first, and pages whose trial was interrupted."""
PIECE = 500
"""Pages valued at a time: the event loop runs between two pieces."""
_NEAREST = 1 << 30
_RENEWED = ["parents", "parents_sum", "parents_best", "anchors", "anchor_sum", "depth"]


_OF_PARENT = {
    "parent_host": "host_id",
    "parent_relevance": "relevance",
    "child_count": "child_count",
    "children_retrieved": "children_retrieved",
    "children_relevance": "children_relevance",
}


@dataclass(slots=True)
class LinkContextDelta:
    """Changes of a page's link context by polls: links added or removed, and relevances of the linking pages."""

    parents: int = 0
    parents_sum: float = 0.0
    best: float = 0.0
    """Largest relevance of pages whose links to it were added or kept."""
    fell: float = -1.0
    """Largest former relevance of a parent that lost relevance or removed its link."""
    anchors: int = 0
    anchor_sum: float = 0.0
    depth: int = _NEAREST

    def link(self, relevance: float, anchor: float, depth: int) -> None:
        """Adds a link from a page of this relevance; depth: links from the nearest seed by this path."""
        self.parents += 1
        self.change_relevance(0.0, relevance)
        self.change_anchor(0.0, anchor)
        self.depth = min(self.depth, depth)

    def unlink(self, relevance: float, anchor: float) -> None:
        """Removes the link from a page that had this relevance."""
        self.parents -= 1
        self.change_relevance(relevance, 0.0)
        self.change_anchor(anchor, 0.0)

    def change_relevance(self, before: float, relevance: float) -> None:
        """Changes the relevance of a linking page."""
        self.parents_sum += relevance - before
        self.best = max(self.best, relevance)
        if relevance < before:
            self.fell = max(self.fell, before)

    def change_anchor(self, before: float, anchor: float) -> None:
        """Changes the score of a link's text."""
        self.anchors += (anchor > 0) - (before > 0)
        self.anchor_sum += anchor - before


class LinkContext:
    """Reads and writes the link context and the values of pages; the caller owns the transaction."""

    def __init__(self, sql: Statements) -> None:
        self._sql = sql
        by = page.alias("discoverer")
        columns = [by.c[_OF_PARENT[n]] if n in _OF_PARENT else page.c[n] for n in PageRow._fields]
        rows = select(*columns).join_from(page, by, by.c.id == page.c.parent_id, isouter=True)
        self._rows = sql.compiled(rows.where(sql.among(page.c.id, "ids")), ["ids"])
        self._revalue = self._update(["value"])
        self._renew = self._update(_RENEWED)
        source = page_link.join(page, page.c.id == page_link.c.source_id)
        best = select(page_link.c.target_id, func.max(page.c.relevance)).select_from(source)
        best = best.where(sql.among(page_link.c.target_id, "targets")).group_by(page_link.c.target_id)
        self._best_parents = sql.compiled(best, ["targets"])

    def _update(self, columns: list[str]) -> ForEachRow:
        """Returns the statement that updates these columns of frontier pages."""

        def change(given: ColumnSource) -> Executable:
            values: list[tuple[Any, Any]] = [(page.c[name], given[name]) for name in columns]
            there = page.c.id == given["key"], page.c.value.is_not(None)
            return update(page).ordered_values(*values).where(*there)

        return self._sql.for_each(change, {**{n: page.c[n].type for n in columns}, "key": page.c.id.type}, ["key"])

    def rows(self, connection: Connection, page_ids: Sequence[int]) -> list[PageRow]:
        """Returns the link context of pages, in no order."""
        found: list[PageRow] = []
        for start in range(0, len(page_ids), PIECE):
            some = self._sql.many(page_ids[start : start + PIECE])
            found += map(PageRow._make, run(connection, self._rows, some))
        return found

    def apply(self, connection: Connection, deltas: Mapping[int, LinkContextDelta]) -> set[int]:
        """Applies the changes, by page id, to the link context of frontier pages; returns the pages' hosts.

        The links must be written before.
        """
        page_ids, hosts = sorted(deltas), set[int]()
        for start in range(0, len(page_ids), PIECE):
            rows = [row for row in self.rows(connection, page_ids[start : start + PIECE]) if row.value is not None]
            best = self._fallen(connection, rows, deltas)
            now = [_with(row, deltas[row.id], best.get(row.id)) for row in rows]
            run_each(connection, self._renew, [(*(getattr(row, name) for name in _RENEWED), row.id) for row in now])
            hosts |= {row.host_id for row in rows}
        return hosts

    def write_values(self, connection: Connection, values: Sequence[tuple[int, float]]) -> None:
        """Writes (page id, value) of pages that are still on the frontier."""
        run_each(connection, self._revalue, [(value, page_id) for page_id, value in values])

    def _fallen(
        self, connection: Connection, rows: Sequence[PageRow], deltas: Mapping[int, LinkContextDelta]
    ) -> dict[int, float]:
        """Returns the best parent relevance of pages whose best parent lost relevance."""
        fallen = [row.id for row in rows if row.id in deltas and deltas[row.id].fell >= row.parents_best]
        if not fallen:
            return {}
        found = dict(map(tuple, run(connection, self._best_parents, self._sql.many(fallen))))
        return {page_id: found.get(page_id) or 0.0 for page_id in fallen}


def _with(row: PageRow, delta: LinkContextDelta, best: float | None) -> PageRow:
    """Returns the changed row; best: the best parent relevance, if it is not the larger of both."""
    return row._replace(
        parents=row.parents + delta.parents,
        # Differences of floats may be slightly negative.
        parents_sum=max(row.parents_sum + delta.parents_sum, 0.0),
        parents_best=max(row.parents_best, delta.best) if best is None else best,
        anchors=row.anchors + delta.anchors,
        anchor_sum=max(row.anchor_sum + delta.anchor_sum, 0.0),
        depth=min(row.depth, delta.depth),
    )
