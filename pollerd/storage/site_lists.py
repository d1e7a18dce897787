"""Lists of sites: filters, pages with cursors, and the number of sites that match.

Filters that few sites fit are read first, by their own indexes, and sorted; else the index of the order is walked until
a page is full. No page is found by counting off those before it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Table, and_, func, select, text, tuple_

from pollerd.model import SiteState
from pollerd.storage import encoding
from pollerd.storage.schema import host, site, site_state, site_tag, source_site
from pollerd.storage.site_order import (
    COLUMNS,
    Columns,
    SiteCondition,
    SiteOrder,
    SitePlace,
    SiteSort,
    WordIndex,
    looked_up,
    words_condition,
)
from pollerd.storage.soft_delete import any_soft_deleted, is_soft_deleted
from pollerd.storage.statements import Statements
from pollerd.storage.values import SiteFilter

# Filters of lists of sites as conditions.

_IS_PAUSED = text("site.paused")
_PAUSABLE = site.alias("pausable")
_EVER = 5e-324
"""The least time of a change; 0: there was none."""


def conditions_of(site_filter: SiteFilter, *, is_sqlite: bool, indexed: bool) -> list[SiteCondition]:
    """Returns the conditions of a filter; none: every site fits. indexed: see `words_condition`.

    Raises `InvalidValueError` for too many words.
    """
    conditions = [words_condition(site_filter.q, is_sqlite=is_sqlite, indexed=indexed)] if site_filter.q else []
    if site_filter.tag is not None:
        conditions.append(_of(site_tag, "site_id", lambda c: c.tag == site_filter.tag))
    if site_filter.host is not None:
        host_id = select(host.c.id).where(host.c.name == site_filter.host).scalar_subquery()
        conditions.append(_of(site, "id", lambda c: c.host_id == host_id))
    if site_filter.source is not None:
        conditions.append(_of(source_site, "site_id", lambda c: c.source_id == site_filter.source, repeated=True))
    if site_filter.state is SiteState.PAUSED:
        # The index knows the condition only as it has it itself.
        paused = _of(site, "id", lambda c: c.paused)
        conditions.append(SiteCondition(select(site.c.id).where(_IS_PAUSED), paused.holds))
    elif site_filter.state is not None:
        state = site_filter.state.value
        conditions.append(_of(site_state, "site_id", lambda c: and_(c.state == state, ~_is_paused(c.site_id))))
    if site_filter.rate_min is not None or site_filter.rate_max is not None:
        # Of a site of which nothing is believed it is -1.
        least = max(site_filter.rate_min or 0.0, 0.0)
        most = math.inf if site_filter.rate_max is None else site_filter.rate_max
        conditions.append(_of(site_state, "site_id", lambda c: c.rate.between(least, most)))
    if site_filter.changed_since is not None:
        since = max(site_filter.changed_since, _EVER)
        conditions.append(_of(site_state, "site_id", lambda c: c.last_change_at >= since))
    return [condition for condition in conditions if condition is not None]


def _is_paused(site_id: ColumnElement[int]) -> ColumnElement[bool]:
    """Returns whether the user paused the site: that goes before what polls met."""
    return looked_up(_PAUSABLE, "id", site_id, lambda c: c.paused)


def _of(
    table: Table,
    key: str,
    fits: Callable[[Columns], ColumnElement[bool]],
    *,
    repeated: bool = False,
) -> SiteCondition:
    """Returns the condition on a row that a site has in the table, by the column of its id.

    repeated: whether it may have several.
    """
    ids, other = select(table.c[key]).where(fits(table.c)), table.alias(f"its_{table.name}")

    def holds(site_id: ColumnElement[int]) -> ColumnElement[bool]:
        # By another name: the list may be read from the same table.
        return looked_up(other, key, site_id, fits)

    return SiteCondition(ids.distinct() if repeated else ids, holds)


COUNTED = 10_000
"""Sites up to which those that fit a filter are counted, and up to which they are sorted."""
_EXAMINED = 100_000
"""Sites that are looked at for counting those that fit several filters, each of which more fit."""


@dataclass(frozen=True, slots=True)
class Count:
    """How many sites fit."""

    sites: int
    is_exact: bool
    """False: there are more, or may be."""


@dataclass(frozen=True, slots=True)
class ListedIds:
    """Ids of the sites of one page, in its order."""

    ids: list[int]
    next_cursor: str | None
    previous_cursor: str | None
    count: Count | None


class SiteListing:
    """Reads pages of ids."""

    def __init__(self, sql: Statements) -> None:
        self._sql, self._words = sql, WordIndex(sql)

    def conditions(self, connection: Connection, site_filter: SiteFilter) -> list[SiteCondition]:
        """Returns the conditions of a filter. Raises `InvalidValueError` for too many words."""
        indexed = bool(site_filter.q) and self._words.exists(connection)
        return conditions_of(site_filter, is_sqlite=self._sql.is_sqlite, indexed=indexed)

    def page(
        self,
        connection: Connection,
        site_filter: SiteFilter,
        order: SiteOrder | None,
        limit: int,
        cursor: str | None,
        *,
        count: bool,
    ) -> ListedIds:
        """Returns a page in `order`, by default the cursor's or by id. count: also count what fits the filter.

        Raises `InvalidValueError` for a bad cursor or limit (1 to 1000), or too many words.
        """
        encoding.check_limit(limit)
        place = None if cursor is None else SitePlace.of(cursor, order)
        conditions = self.conditions(connection, site_filter)
        few, others = self._few(connection, conditions)
        order = place.order if place is not None else order or SiteOrder()
        rows = _Rows(order, [condition.holds for condition in others], any_soft_deleted=any_soft_deleted(connection))
        if few is None:
            statement, parameters = rows.walked(), {}
        else:
            statement, parameters = rows.sorted(self._sql), {"ids": self._sql.id_list(few)}
        statement = _from(place, order, statement).limit(limit + 1)
        places = [(key, site_id) for key, site_id in connection.execute(statement, parameters)]
        counted = None
        if count and few is not None and rows.all_fit:
            counted = Count(len(few), is_exact=True)
        elif count and conditions:
            counted = self._count(connection, conditions, rows, parameters)
        return _page(places, limit, order, place, counted)

    def ids_after(
        self, connection: Connection, site_filter: SiteFilter, after: int, newest: int, limit: int
    ) -> list[int]:
        """Returns ids above `after`, up to `newest`, of sites that fit, ascending; fewer than `limit`: no more do."""
        few, others = self._few(connection, self.conditions(connection, site_filter))
        rows = _Rows(
            SiteOrder(), [condition.holds for condition in others], any_soft_deleted=any_soft_deleted(connection)
        )
        if few is None:
            statement, parameters = rows.walked(), {}
        else:
            statement, parameters = rows.sorted(self._sql), {"ids": self._sql.id_list(few)}
        _, site_id = statement.selected_columns
        statement = statement.where(site_id > after, site_id <= newest).order_by(site_id).limit(limit)
        return [row[1] for row in connection.execute(statement, parameters)]

    def count(self, connection: Connection, site_filter: SiteFilter) -> Count | None:
        """Returns how many sites fit; None without a filter."""
        conditions = self.conditions(connection, site_filter)
        if not conditions:
            return None
        few, others = self._few(connection, conditions)
        rows = _Rows(
            SiteOrder(), [condition.holds for condition in others], any_soft_deleted=any_soft_deleted(connection)
        )
        return self._count(connection, conditions, rows, {} if few is None else {"ids": self._sql.id_list(few)})

    @staticmethod
    def _few(
        connection: Connection, conditions: Sequence[SiteCondition]
    ) -> tuple[list[int] | None, list[SiteCondition]]:
        """Returns the ids of the condition that fewest sites meet, and the others; None: each is met by too many."""
        best: tuple[list[int] | None, list[SiteCondition]] = (None, list(conditions))
        for condition in conditions:
            most = COUNTED + 1 if best[0] is None else len(best[0])
            ids = list(connection.execute(condition.ids.limit(most)).scalars())
            if len(ids) < most:
                best = ids, [other for other in conditions if other is not condition]
        return best

    def _count(
        self, connection: Connection, conditions: Sequence[SiteCondition], rows: _Rows, parameters: dict[str, Any]
    ) -> Count:
        if parameters:
            fitting = select(func.count()).select_from(rows.sorted(self._sql).subquery())
            return Count(connection.execute(fitting, parameters).scalar_one(), is_exact=True)
        if len(conditions) == 1:
            return Count(COUNTED, is_exact=False)
        first, *others = conditions
        some = first.ids.limit(_EXAMINED).subquery()
        fits = [condition.holds(some.c[0]) for condition in others]
        limited = select(some.c[0]).where(*fits).limit(COUNTED + 1).subquery()
        number = connection.execute(select(func.count()).select_from(limited)).scalar_one()
        if number > COUNTED:
            return Count(COUNTED, is_exact=False)
        examined = connection.execute(select(func.count()).select_from(some)).scalar_one()
        return Count(number, is_exact=examined < _EXAMINED)


class _Rows:
    """Keys and ids of the sites that fit, before they are put in order."""

    def __init__(self, order: SiteOrder, fits: Sequence[Any], *, any_soft_deleted: bool) -> None:
        self._key, self._site_id, self._index = COLUMNS[order.sort]
        self._where: list[ColumnElement[bool]] = [fit(self._site_id) for fit in fits]
        if any_soft_deleted:
            self._where.append(~is_soft_deleted(self._site_id))
        self.all_fit = not self._where
        """Whether there is nothing more to be met."""

    def walked(self) -> Select[Any]:
        """Selects them from the index of the order."""
        hint = f"INDEXED BY {self._index}" if self._index else "NOT INDEXED"
        rows = select(self._key.label("key"), self._site_id.label("site_id")).where(*self._where)
        return rows.with_hint(self._key.table, hint, "sqlite")

    def sorted(self, sql: Statements) -> Select[Any]:
        """Selects them from those with ids in the list parameter "ids"."""
        among = sql.in_list(self._site_id, "ids")
        rows = select(self._key.label("key"), self._site_id.label("site_id")).where(among, *self._where)
        # OFFSET keeps databases from walking the index of the order instead.
        some = rows.offset(0).subquery()
        return select(some.c.key, some.c.site_id)


def _from(place: SitePlace | None, order: SiteOrder, statement: Select[Any]) -> Select[Any]:
    """Puts the statement in order, from the place on."""
    key, site_id = statement.selected_columns
    both = [site_id] if order.sort is SiteSort.ID else [key, site_id]
    descending = order.descending if place is None else place.descending
    if place is not None:
        here = tuple_(*both)
        position = tuple_(place.site_id) if len(both) == 1 else tuple_(place.key, place.site_id)
        statement = statement.where(here < position if descending else here > position)
    return statement.order_by(*(column.desc() if descending else column for column in both))


def _page(
    rows: list[tuple[Any, int]], limit: int, order: SiteOrder, place: SitePlace | None, count: Count | None
) -> ListedIds:
    more, items = len(rows) > limit, rows[:limit]
    back = place is not None and place.back
    if back:
        items.reverse()
    if not items:
        # Everything beyond the place is gone: the way back begins with its very site.
        turned = None if place is None else place.turned().cursor()
        return ListedIds([], turned if back else None, None if back else turned, count)
    first, last = (SitePlace(order, _key(order, *row), row[1]) for row in (items[0], items[-1]))
    before = SitePlace(order, first.key, first.site_id, back=True).cursor()
    return ListedIds(
        ids=[site_id for _, site_id in items],
        next_cursor=last.cursor() if more or back else None,
        previous_cursor=before if (more if back else place is not None) else None,
        count=count,
    )


def _key(order: SiteOrder, key: Any, site_id: int) -> str | float:
    if order.sort is SiteSort.ID:
        return site_id
    return str(key) if order.sort in (SiteSort.URL, SiteSort.TITLE) else float(key)


# Stored forecasts: how often a site changes and when it is polled next, written with its polls, for lists.
