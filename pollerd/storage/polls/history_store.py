"""Reads recorded polls, changes and contents."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from pollerd.model import Change, Poll, SelectionState
from pollerd.storage.db.engine import Database
from pollerd.storage.db.statements import Statements
from pollerd.storage.encoding.compression import Base, unpack_all
from pollerd.storage.encoding.cursors import Order
from pollerd.storage.polls import changes, content_use, contents, history, readings, runs
from pollerd.storage.polls.changes import ALL_CHANGES, ChangeFilter, ChangesRead
from pollerd.storage.polls.contents import Content
from pollerd.storage.polls.notify import ChangeNotifier
from pollerd.storage.polls.readings import ReadingFilter, RecordedReading
from pollerd.storage.settings import CurrentSettings
from pollerd.storage.sites.selection_states import load_selection_states
from pollerd.storage.values import ListPage, PollColumns, StripColumns
from pollerd.storage.views import seen as seen_of
from pollerd.storage.views import strip, yields
from pollerd.storage.views.seen import Range
from pollerd.storage.views.yields import YieldMinute, YieldSum


class HistoryStore:
    """Polls, changes and contents as written by `Store.commit`.

    Every method raises `DatabaseUnavailableError` as those of `Store` do.
    """

    def __init__(
        self,
        *,
        database: Database,
        sql: Statements,
        settings: CurrentSettings,
        news: ChangeNotifier,
        bases: dict[int, Base],
    ) -> None:
        """bases: receives the bases of contents that are read, by content id, for `Store.commit`."""
        self._database, self._sql, self._settings = database, sql, settings
        self._news, self._bases = news, bases

    # Polls.

    async def list_polls(
        self, site_id: int, limit: int = 100, cursor: str | None = None, order: Order | None = None
    ) -> ListPage[Poll]:
        """Returns the site's polls, newest first unless cursor or `order` say otherwise; no cursor after the last.

        Raises `InvalidValueError` for a bad cursor, an order that differs from the cursor's, or a bad limit (1 to
        1000).
        """
        return await self._database.read(lambda c: history.list_polls(c, site_id, limit, cursor, order))

    async def last_poll_id(self) -> int:
        """Returns the id of the last committed poll, 0 before the first."""
        return await self._database.read(runs.last_poll_id)

    async def last_poll_at(self) -> float | None:
        """Returns when the last committed poll began (epoch s); None: there is none."""
        return await self._database.read(runs.last_poll_at)

    async def strip(self, site_id: int, since: float) -> StripColumns:
        """Returns the site's polls since a time (epoch s), newest first, the newest 20,000 at most."""
        return await self._database.read(lambda c: strip.strip_columns(c, site_id, since))

    async def recent_polls(
        self, per_site: int = 64, piece: int = 2_000, *, after: int = 0, through: int | None = None
    ) -> AsyncIterator[PollColumns]:
        """Yields the last `per_site` informative polls of every site, in time order, `piece` at a time.

        after, through: only polls with ids above the first, and up to the second.
        """
        async for rows in self._database.stream(history.recent_polls(per_site, after, through), piece):
            yield history.poll_columns(rows)

    async def dated_delays(self, changes: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Returns how long polls came after the change that they found, where the page named its date.

        Of the newest `changes` recorded changes: site ids int64[k], delays float64[k] s, a row a poll.
        """
        return await self._database.read(lambda c: history.dated_delays(c, changes))

    # Changes.

    async def list_changes(
        self,
        wanted: ChangeFilter = ALL_CHANGES,
        limit: int = 100,
        cursor: str | None = None,
        order: Order | None = None,
    ) -> ListPage[Change]:
        """Returns matching changes, newest first unless cursor or `order` say otherwise.

        No cursor after the last; with oldest first the last cursor may be reused to get newer changes. Raises
        `InvalidValueError` for a bad cursor, an order that differs from the cursor's, or a bad limit (1 to 1000).
        """
        return await self._database.read(lambda c: changes.list_changes(c, wanted, limit, cursor, order))

    async def get_change(self, change_id: int) -> Change:
        """Returns the change. Raises `NotFoundError`."""
        return await self._database.read(lambda c: changes.get_change(c, change_id))

    async def changes_after(self, wanted: ChangeFilter, after: int, limit: int = 100) -> ChangesRead:
        """Returns matching changes with ids above `after`, oldest first, `limit` (1 to 1000) at most.

        To follow the changes without a gap, continue from `reached` each time, and wait with `news` once it is `whole`.
        """
        return await self._database.read(lambda c: changes.changes_after(c, wanted, after, limit))

    async def last_change_id(self) -> int:
        """Returns the largest id of a stored change; 0 before the first."""
        return await self._database.read(changes.last_change_id)

    async def id_before_newest(self, count: int) -> int:
        """Returns the id above which the newest `count` changes lie; 0: all do."""
        return await self._database.read(lambda c: changes.id_before_newest(c, count))

    @property
    def newest_change(self) -> int:
        """The largest id of a change that this store has committed, or heard of from another one; 0: none."""
        return self._news.newest

    async def news(self, after: int) -> None:
        """Returns once this store has committed a change with an id above `after`, or heard of it."""
        await self._news.after(after)

    # What was expected, what was seen.

    async def add_yield(self, minute: YieldMinute) -> None:
        """Adds what is expected of one minute."""
        await self._database.write(lambda c: yields.add_yield(c, self._sql, minute))

    async def yield_since(self, since: float) -> YieldSum:
        """Returns what was found since a time (epoch s), and what was expected."""
        return await self._database.read(lambda c: yields.yield_since(c, since))

    async def put_seen(self, reader: str, ranges: Iterable[Range], *, seen: bool = True) -> None:
        """Notes that a reader has seen the changes with ids in these ranges, both ends included; or has not."""
        given = list(ranges)

        def work(connection: Connection) -> None:
            self._sql.locks.note_seen(connection, reader)
            seen_of.put_seen(connection, reader, given, seen=seen)

        await self._database.write(work)

    async def count_unseen(self, reader: str, most: int) -> int:
        """Returns how many changes that matter the reader has not seen, counting no further than `most`."""
        return await self._database.read(lambda c: seen_of.count_unseen(c, reader, most))

    # Selections.

    async def list_readings(
        self,
        site_id: int,
        wanted: ReadingFilter,
        limit: int = 100,
        cursor: str | None = None,
        order: Order | None = None,
    ) -> ListPage[RecordedReading]:
        """Returns the values of a site's selections each time they were read differently.

        Order, cursor and errors as in `list_changes`.
        """
        return await self._database.read(lambda c: readings.list_readings(c, site_id, wanted, limit, cursor, order))

    async def selection_states(self, site_id: int) -> tuple[SelectionState, ...]:
        """Returns what is known of the site's selections."""
        found = await self._database.read(lambda c: load_selection_states(c, self._sql, [site_id]))
        return found.get(site_id, ())

    async def load_versions(self, site_id: int, selection: str, limit: int) -> list[bytes]:
        """Returns the stored contents that changes of a selection led to, newest first."""
        ids = await self._database.read(lambda c: changes.versions(c, site_id, selection, limit))
        contents = await self.load_contents(list(dict.fromkeys(ids))) if ids else {}
        return [contents[one] for one in ids if one in contents]

    # Contents.

    async def get_content(self, content_id: int) -> Content:
        """Returns the content, decompressed. Raises `NotFoundError` if it was pruned."""
        return await self._database.read(lambda c: contents.get_content(c, content_id))

    async def get_screenshot(self, content_id: int) -> bytes:
        """Returns the PNG of the page kept with the content. Raises `NotFoundError` if there is none."""
        return await self._database.read(lambda c: contents.get_screenshot(c, content_id))

    async def current_screenshot(self, site_id: int) -> bytes:
        """Returns the PNG of the page kept with the site's current content. Raises `NotFoundError`."""
        return await self._database.read(lambda c: contents.current_screenshot(c, site_id))

    async def load_contents(self, content_ids: Sequence[int]) -> dict[int, bytes]:
        """Returns contents by id, decompressed; pruned ones are missing."""
        packed = await self._database.read(lambda c: contents.packed_contents(c, self._sql, content_ids))
        # Like compression, decompression releases the GIL.
        kept = await asyncio.to_thread(unpack_all, packed) if packed else {}
        self._bases.update({content_id: one.base for content_id, one in kept.items()})
        return {content_id: one.content for content_id, one in kept.items()}

    async def limit_passed(self, change: Change) -> tuple[str, float]:
        """Returns why a content of this change was dropped: the setting, and its present value (s, bytes, contents)."""
        name = await self._database.read(lambda c: content_use.limit_passed(c, change))
        s = self._settings.value
        values = {"content_retention": s.content_retention_seconds, "content_cap_bytes": s.content_cap_bytes}
        return name, values.get(name, s.keep_contents)
