"""The group commit: polls and all their effects, in one transaction."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, func, select, update

from pollerd.errors import DatabaseInUseError, InvalidValueError
from pollerd.events import EventKind, Notice
from pollerd.model import DEFAULT_SELECTION, Baseline, Poll, Redirect, SiteState
from pollerd.storage.crawler.pages import PageCommit
from pollerd.storage.encoding import Packed, encode_header, pack, storable, storable_word, window_columns
from pollerd.storage.notices import notice_row
from pollerd.storage.schema import allocation
from pollerd.storage.schema import poll as poll_table
from pollerd.storage.selection_states import load_selection_states, reading_rows, state_row
from pollerd.storage.site_order import retitle
from pollerd.storage.statements import CHANGE, Statements, run, run_each, run_together
from pollerd.storage.values import Batch, ChangeDraft, CommitResult, CommittedChange, PollRecord
from pollerd.texts import _

if TYPE_CHECKING:
    from pollerd.storage.node_session import NodeSession

# The state by which lists of sites are sorted: written only if a poll changed it.

ListedState = tuple[Any, ...]
"""State, failures, believed changes per day (-1: nothing is believed) and time of the last change (0: never) of a site,
as in `LISTED_STATE`."""
NOTICEABLE = 0.02
"""Share by which a rate must differ from the stored one to be stored: else nearly every poll would move it."""


def listed_state(record: PollRecord, was: ListedState) -> ListedState:
    """Returns what is listed after a record; `was`: before it."""
    rate = -1.0 if record.rate is None else record.rate
    stored = was[2]  # it may have been damaged by hand
    near = isinstance(stored, float) and abs(rate - stored) <= NOTICEABLE * abs(stored)
    kept = stored if near and (stored < 0) == (rate < 0) else rate
    return (record.state.value, record.failures, kept, record.poll.at if record.changes else was[3])


# Notices, written in the transaction of the polls that cause them.

ChangeKey = tuple[int, str]
"""Index of a record, and the selection in which it found a change; `DEFAULT_SELECTION` of a site without any."""


def check_notices(record: PollRecord) -> None:
    """Raises `InvalidValueError` for a notice or incident of another site than the record's."""
    site_id = record.poll.site_id
    for notice in record.notices:
        if notice.site_id != site_id:
            raise InvalidValueError(
                "notices", _("of the site that was polled ({site_id})", site_id=site_id), notice.site_id
            )
    for incident in record.incidents_opened:
        if incident.site_id != site_id:
            raise InvalidValueError(
                "incidents_opened", _("of the site that was polled ({site_id})", site_id=site_id), incident.site_id
            )


def write_notices(
    connection: Connection,
    sql: Statements,
    records: Sequence[tuple[int, PollRecord]],
    changes: Mapping[ChangeKey, int],
    others: Sequence[Notice],
) -> None:
    """Writes notices and incidents of records (with their index in the batch), and notices of no record.

    changes: ids of the batch's changes.
    """
    rows: list[tuple[Any, ...]] = []
    for i, record in records:
        url = record.context.url
        for notice in record.notices:
            tells = notice.kind is EventKind.CHANGED
            rows.append(
                notice_row(notice, url, changes.get((i, notice.selection or DEFAULT_SELECTION)) if tells else None)
            )
    rows += [notice_row(notice) for notice in others]
    run_each(connection, sql.insert_notice, rows)
    closed = [(rule_id, r.poll.site_id) for _i, r in records for rule_id in r.incidents_closed]
    run_each(connection, sql.close_incident, closed)
    opened = [
        (incident.rule_id, incident.site_id, incident.id, incident.since)
        for _i, r in records
        for incident in r.incidents_opened
    ]
    run_each(connection, sql.open_incident, opened)


ContentKey = tuple[int, bytes]
"""Site and fingerprint."""
Living = list[tuple[int, PollRecord]]
"""Records of sites as they were polled, with their index in the batch."""
BodyKey = tuple[int, int]
"""Index of a record, and of its selection from 1; 0: the record's own content."""
RunKey = tuple[str, int | None]
"""Who writes (empty: the only one), and its run; None: none was started."""
_SELECTION = CHANGE.index("selection")
_BYTES_AT_ONCE = 64 * 1024 * 1024


def check_batch(batch: Batch) -> None:
    """Raises `InvalidValueError` for an inconsistent batch."""
    learned = batch.shared_state is not None
    for record in batch.records:
        learned = learned or record.learned is not None
        if record.state is SiteState.PAUSED:
            raise InvalidValueError("state", _("any but paused, which only the user sets"), record.state.value)
        if record.poll.site_id != record.context.site_id:
            raise InvalidValueError("context", _("of the site that was polled"), record.context.site_id)
        baseline = record.context.baseline
        if record.content is not None and (baseline.fingerprint is None or baseline.media is None):
            raise InvalidValueError("content", _("given with its fingerprint and media in the baseline"), baseline)
        for selection in record.selections:
            if selection.content is not None and (
                selection.state.baseline.fingerprint is None or selection.state.baseline.media is None
            ):
                raise InvalidValueError("content", _("given with its fingerprint and media"), selection.state)
        if record.page is not None and batch.findings is None:
            raise InvalidValueError("findings", _("given where a record has a page"), None)
        if record.notices or record.incidents_opened:
            check_notices(record)
    if learned and batch.allocator is None:
        raise InvalidValueError("allocator", _("named where learned state is given"), None)


@dataclass
class _Rows:
    """The rows of the records of a batch, by statement."""

    polls: list[tuple[Any, ...]] = field(default_factory=list)
    items: list[tuple[Any, ...]] = field(default_factory=list)
    """Two further columns of each poll."""
    counted: bool = False
    """Whether any of the polls counted items."""
    states: list[tuple[Any, ...]] = field(default_factory=list)
    listed: list[tuple[Any, ...]] = field(default_factory=list)
    """Of SQLite: of the sites of which something else is listed than before."""
    times: list[tuple[Any, ...]] = field(default_factory=list)
    learned: list[tuple[Any, ...]] = field(default_factory=list)
    changes: list[tuple[int, tuple[Any, ...]]] = field(default_factory=list)
    """Each with the index of its record."""
    masks: list[PollRecord] = field(default_factory=list)
    """The records that changed a mask."""
    noticed: bool = False
    """Whether there are notices or incidents."""


class Commit:
    """Commits one batch.

    `bodies` holds the packed contents of records, `robots` the compressed robots.txt of each host by
    its id. `run`: of the writer.
    """

    def __init__(
        self,
        sql: Statements,
        batch: Batch,
        bodies: dict[BodyKey, Packed],
        robots: dict[int, bytes],
        run: RunKey,
        write_pages: PageCommit,
        node: NodeSession | None = None,
    ) -> None:
        """node: which of several writes; None: there is one."""
        self._sql, self._write_pages, self._node = sql, write_pages, node
        self._batch = batch
        self._bodies, self._robots = bodies, robots
        self._run = run
        self._run_keys = (run[0], run[0])

    def __call__(self, connection: Connection) -> CommitResult:
        """Writes the batch; the caller owns the transaction. Writes nothing if it was committed before.

        Raises `DatabaseInUseError` if another daemon has started since our run.
        """
        batch, sql = self._batch, self._sql
        _run_key, run_id = self._run
        last_batch, last_run, polled = self._begin(connection)
        if run_id is not None and last_run != run_id:
            raise DatabaseInUseError(
                _(
                    "another daemon (run {last_run}) took over from this one ({run_id})",
                    last_run=last_run,
                    run_id=run_id,
                )
            )
        if last_batch == batch.id:
            return self._recall(connection, polled)
        current, listed, living, with_content = self._living(polled)
        contents, selected = dict[ContentKey, int](), dict[tuple[int, str], int]()
        if with_content:
            contents = self._write_contents(connection, with_content, current)
            selected = self._write_selections(connection, with_content, contents)
            titles = {record.poll.site_id: record.page_title for _i, record in with_content if record.page_title}
            retitle(connection, sql, titles)
        rows = self._rows(living, listed, current, contents, selected)
        changes = self._write_rows(connection, rows)
        if sql.update_listed is not None and rows.listed:
            run_each(connection, sql.update_listed, rows.listed)
        if rows.masks:
            self._write_masks(connection, rows.masks)
        if batch.shared_state is not None:
            self._write_shared_state(connection, batch.shared_state)
        self._write_robots(connection)
        stale: tuple[int, ...] = ()
        if batch.findings is not None:
            pages = [(r.poll.site_id, r.poll.at, r.page) for _i, r in living if r.page is not None]
            stale = self._write_pages(connection, pages, batch.findings)
        if rows.changes or rows.noticed:
            changes = self._write_events(connection, living, rows, changes)
        fresh = {id_of[0]: current[id_of[0]] or 0 for id_of in contents} if contents else {}
        skipped = _skipped(batch.records, living) if len(living) < len(batch.records) else ()
        return CommitResult(
            changes=changes, skipped=skipped, content_ids=fresh, selected_ids=selected, stale_pages=stale
        )

    def _begin(self, connection: Connection) -> tuple[bytes | None, int | None, list[tuple[Any, ...]]]:
        """Returns the last committed batch, the last run, and rows of polled sites that are still there."""
        sql = self._sql
        polled = set[int]()
        for record in self._batch.records:
            polled.add(record.poll.site_id)
        sites = sql.id_list(polled)
        if sql.is_sqlite:
            last_batch, last_run = run(connection, sql.begin_commit, *self._run_keys)[0]
            return last_batch, last_run, run(connection, sql.living_sites, sites) if self._batch.records else []
        if self._node is None:
            rows = run(connection, sql.begin_commit, *self._run_keys, sites)
        else:
            # This session holds the locks of these partitions: no other commits for them before it ends.
            rows = run(connection, sql.begin_node_commit, *self._run_keys, sites, sql.id_list(self._node.held))
        return *rows[0][:2], [row[2:] for row in rows if row[2] is not None]

    def _living(
        self, rows: list[tuple[Any, ...]]
    ) -> tuple[dict[int, int | None], dict[int, ListedState], Living, Living]:
        """Returns the current content and what is listed, by site, and the records of sites as they were polled, with
        their index: all, and those with a content or selections.

        rows: of `_begin`. A record of a site that has another URL or other selections by now is left out, and of a site
        in a partition that this node lost. So is one that was polled before an edit after which the site begins anew:
        it would be what the next poll is compared with; or that brings a mask, which the edit may have been about.
        """
        current, listed, settings = dict[int, int | None](), dict[int, ListedState](), dict[int, tuple[Any, ...]]()
        for site_id, url, selections, changed_at, begins_anew, content_id, *state in rows:
            current[site_id], listed[site_id] = content_id, tuple(state)
            settings[site_id] = (url, selections or "", changed_at, begins_anew)
        living, with_content = list[tuple[int, PollRecord]](), list[tuple[int, PollRecord]]()
        for i, record in enumerate(self._batch.records):
            context, now = record.context, settings.get(record.poll.site_id)
            if now is None or now[:2] != (context.url, context.own_selections):
                continue
            edited = now[2] != context.settings_changed_at
            if edited and (now[3] or record.mask_changed or record.selections):
                continue
            living.append((i, record))
            if record.content is not None or record.selections:
                with_content.append((i, record))
        return current, listed, living, with_content

    def _write_contents(
        self, connection: Connection, living: list[tuple[int, PollRecord]], current: dict[int, int | None]
    ) -> dict[ContentKey, int]:
        """Writes new contents; returns their ids."""
        rows = []
        for i, record in living:
            if record.content is not None:
                is_current = record.context.content_id == current[record.poll.site_id]
                packed = _stored_content(record.content, self._bodies[i, 0], is_current)
                rows.append(_content_row(record, record.context.baseline, packed))
            for n, selection in enumerate(record.selections, 1):
                if selection.content is not None:
                    rows.append(_content_row(record, selection.state.baseline, self._bodies[i, n]))
        if not rows:
            return {}
        shown = [record for _i, record in living if record.screenshot is not None and _renews(record)]
        last = run(connection, self._sql.last_content_id)[0][0] if shown else 0
        for piece in _in_messages(rows):
            run_each(connection, self._sql.upsert_content, piece)
        sites = self._sql.id_list({row[0] for row in rows})
        kept = run(connection, self._sql.contents_since, sites, min(row[4] for row in rows))
        ids = {(site, bytes(print_)): id_ for id_, site, print_ in kept}
        for record in shown:
            self._write_screenshots(connection, record, ids, last)
        return ids

    def _write_screenshots(
        self, connection: Connection, record: PollRecord, ids: dict[ContentKey, int], last: int
    ) -> None:
        """Keeps the record's screenshot with those of its contents that were not stored before (ids above `last`)."""
        prints = {record.context.baseline.fingerprint} if record.content is not None else set()
        prints |= {
            selection.state.baseline.fingerprint for selection in record.selections if selection.content is not None
        }
        screenshot_ids = {ids[record.poll.site_id, print_ or b""] for print_ in prints}
        run_each(
            connection,
            self._sql.insert_screenshot,
            [(i, record.screenshot) for i in sorted(screenshot_ids) if i > last],
        )

    def _write_selections(
        self, connection: Connection, living: list[tuple[int, PollRecord]], contents: dict[ContentKey, int]
    ) -> dict[tuple[int, str], int]:
        """Writes the states and values of selections; returns their new contents by site and selection."""
        states, readings = [], []
        new: dict[tuple[int, str], int] = {}
        for _i, record in living:
            site_id = record.poll.site_id
            for selection in record.selections:
                content_id = selection.state.content_id
                if selection.content is not None:
                    content_id = contents[(site_id, selection.state.baseline.fingerprint or b"")]
                    new[site_id, selection.state.name] = content_id
                announced_id = content_id if selection.announces else selection.state.announced_id
                states.append(state_row(site_id, selection, content_id, announced_id))
                readings += reading_rows(site_id, record.poll.at, selection)
        run_each(connection, self._sql.upsert_selection_state, states)
        run_each(connection, self._sql.insert_reading, readings)
        return new

    def _rows(
        self,
        living: list[tuple[int, PollRecord]],
        listed: dict[int, ListedState],
        current: dict[int, int | None],
        contents: dict[ContentKey, int],
        selected: dict[tuple[int, str], int],
    ) -> _Rows:
        """Returns the rows of the records; `current` and `listed` follow them."""
        rows, batch, apart = _Rows(noticed=bool(self._batch.notices)), self._batch, self._sql.update_listed is not None
        for i, record in living:
            poll, baseline = record.poll, record.context.baseline
            site_id, before, new = poll.site_id, current[poll.site_id], None
            if record.content is not None:
                new = contents[(site_id, baseline.fingerprint or b"")]
            elif record.selections:
                new = selected.get((site_id, DEFAULT_SELECTION))
            if new is not None:
                current[site_id] = new
            was = listed[site_id]
            listed[site_id] = now = listed_state(record, was)
            if not apart:
                rows.states.append((*now, *_state_row(record, new)))
            else:
                rows.states.append(_state_row(record, new))
                if now != was:
                    rows.listed.append((*now, site_id))
            rows.polls.append(_poll_row(poll))
            rows.items.append((poll.at_least, poll.span))
            rows.counted = rows.counted or poll.at_least is not None
            earliest = record.not_before if record.next_poll_at is None else record.next_poll_at
            rows.times.append((poll.at, poll.at if earliest is None else max(poll.at, earliest), site_id))
            if record.learned is not None:
                rows.learned.append((site_id, batch.allocator, record.learned))
            if record.changes:
                self._add_changes(rows, i, record, (before, new), selected)
            if record.mask_changed:
                rows.masks.append(record)
            rows.noticed |= bool(record.notices or record.incidents_opened or record.incidents_closed)
        return rows

    @staticmethod
    def _add_changes(
        rows: _Rows,
        i: int,
        record: PollRecord,
        contents: tuple[int | None, int | None],
        selected: dict[tuple[int, str], int],
    ) -> None:
        """Adds the changes of the record with this index; contents: of the whole page before and after it."""
        poll = record.poll
        if record.change is not None:
            rows.changes.append((i, _change_row(poll, record.change, *contents)))
        for selection in record.selections:
            if selection.change is not None:
                after = selected.get((poll.site_id, selection.state.name))
                rows.changes.append(
                    (i, _change_row(poll, selection.change, selection.state.content_id, after, selection.state.name))
                )

    def _write_rows(self, connection: Connection, rows: _Rows) -> tuple[CommittedChange, ...]:
        """Writes a row or more of each poll: one round trip to PostgreSQL; returns the changes, unless they come later,
        because there are several writers.
        """
        sql = self._sql
        polls, insert_poll = rows.polls, sql.insert_poll
        if rows.counted:  # two more columns
            polls, insert_poll = (
                [(*row, *items) for row, items in zip(polls, rows.items, strict=True)],
                sql.insert_poll_with_items,
            )
        with_ids, late = sql.insert_change.at_once, sql.locks.several
        returned = run_together(
            connection,
            (insert_poll, polls),
            (sql.update_state, rows.states),
            (sql.update_times, rows.times),
            (sql.upsert_learned, rows.learned),
            (sql.update_host, self._host_rows(connection)),
            (sql.upsert_batch, [(self._run[0], self._batch.id)]),
            (sql.insert_change, [row for _i, row in rows.changes] if with_ids and not late else []),
        )
        if late or not rows.changes:
            return ()
        # In the order of rows: there is one writer, and ids only grow.
        ids = sorted(id_ for (id_,) in returned) if with_ids else self._new_change_ids(connection, rows.changes)
        return _changes(ids, rows.changes)

    def _write_events(
        self,
        connection: Connection,
        living: list[tuple[int, PollRecord]],
        rows: _Rows,
        changes: tuple[CommittedChange, ...],
    ) -> tuple[CommittedChange, ...]:
        """Writes notices, and the changes that `_write_rows` did not, last: other writers that have any wait from here.

        Returns all changes.
        """
        self._sql.locks.number_events(connection)
        if rows.changes and self._sql.locks.several:
            returned = run_each(connection, self._sql.insert_change, [row for _i, row in rows.changes])
            changes = _changes(sorted(id_ for (id_,) in returned), rows.changes)  # one statement draws them upwards
        if rows.noticed:
            self._write_notices(connection, living, rows.changes, changes)
        return changes

    def _write_notices(
        self,
        connection: Connection,
        living: list[tuple[int, PollRecord]],
        drafts: list[tuple[int, tuple[Any, ...]]],
        changes: tuple[CommittedChange, ...],
    ) -> None:
        names = (row[_SELECTION] or DEFAULT_SELECTION for _i, row in drafts)
        ids = {(row.record, name): row.id for row, name in zip(changes, names, strict=True)}
        write_notices(connection, self._sql, living, ids, self._batch.notices)

    def _new_change_ids(self, connection: Connection, drafts: list[tuple[int, tuple[Any, ...]]]) -> list[int]:
        """Inserts changes on SQLite, which returns no ids for several rows; returns their ids, in the same order."""
        after = run(connection, self._sql.last_change_id)[0][0]
        run_each(connection, self._sql.insert_change, [row for _i, row in drafts])
        return [id_ for (id_,) in run(connection, self._sql.changes_after, after)]

    def _write_masks(self, connection: Connection, records: list[PollRecord]) -> None:
        """Writes masks; `since` moves only if earlier polls were misled. Of a page that begins anew there is none."""
        run_each(connection, self._sql.delete_mask, [(r.poll.site_id,) for r in records if _begins_anew(r)])
        records = [r for r in records if not _begins_anew(r)]
        misled = [(r.poll.site_id, r.context.baseline.mask, r.poll.at) for r in records if r.misled]
        run_each(connection, self._sql.upsert_mask, misled)
        known = [(r.poll.site_id, r.context.baseline.mask, 0.0) for r in records if not r.misled]
        run_each(connection, self._sql.upsert_known_mask, known)

    def _write_shared_state(self, connection: Connection, state: bytes) -> None:
        allocator = self._batch.allocator
        if self._node is not None:
            row = (self._node.info.name, allocator, state, time.time())
            run_each(connection, self._sql.upsert_node_state, [row])
            return
        newest = select(func.coalesce(func.max(poll_table.c.id), 0)).scalar_subquery()
        known = {"shared_state": state, "learned_through": newest}
        connection.execute(update(allocation).where(allocation.c.allocator == allocator).values(known))

    def _host_rows(self, connection: Connection) -> list[tuple[Any, ...]]:
        """Returns rows of hosts to update; of one of several nodes only those in its partitions."""
        hosts = self._batch.hosts
        if not hosts:
            return []
        if self._node is not None:
            held = self._sql.id_list(self._node.held)
            mine = {
                i for (i,) in run(connection, self._sql.held_hosts, self._sql.id_list(h.host_id for h in hosts), held)
            }
            hosts = [h for h in hosts if h.host_id in mine]
        return [(h.last_start_at, h.paused_until, h.throttles, h.host_id) for h in hosts]

    def _write_robots(self, connection: Connection) -> None:
        rows = list[tuple[Any, ...]]()
        for host in self._batch.hosts:
            read, key = host.robots, host.host_id
            if read is not None:
                row = (read.kind, self._robots.get(key), read.at, storable_word(read.detail), read.crawl_delay, key)
                rows.append(row)
        if rows:
            run_each(connection, self._sql.update_robots, rows)

    def _recall(self, connection: Connection, polled: list[tuple[Any, ...]]) -> CommitResult:
        """Returns the result of this batch's first, successful commit, whose answer was lost."""
        records = self._batch.records
        if not records:
            return CommitResult()
        sites = self._sql.id_list({r.poll.site_id for r in records})
        since = min(r.poll.at for r in records)
        rows = run(connection, self._sql.changes_at, sites, since)
        ids = {(site_id, at, selection): id_ for id_, site_id, at, selection in rows}
        keys: list[tuple[int, tuple[int, float, str | None]]] = []
        for i, r in enumerate(records):
            names: list[str | None] = [None] if r.change is not None else []
            names += [selection.state.name for selection in r.selections if selection.change is not None]
            keys += [(i, (r.poll.site_id, _answered_at(r.poll), name)) for name in names]
        current, _before, living, _dead = self._living(polled)
        fresh = {r.poll.site_id: id_ for _i, r in living if _renews(r) and (id_ := current[r.poll.site_id]) is not None}
        return CommitResult(
            changes=tuple(CommittedChange(ids[key], key[0], i) for i, key in keys if key in ids),
            skipped=_skipped(records, living),
            content_ids=fresh,
            selected_ids=self._selected(connection, [r.poll.site_id for _i, r in living if r.selections]),
        )

    def _selected(self, connection: Connection, sites: list[int]) -> dict[tuple[int, str], int]:
        states = load_selection_states(connection, self._sql, sites) if sites else {}
        each = ((site_id, state) for site_id, of_site in states.items() for state in of_site)
        return {(site_id, state.name): state.content_id for site_id, state in each if state.content_id is not None}


def _skipped(records: Sequence[PollRecord], living: Living) -> tuple[int, ...]:
    """Returns the sites of the records that were left out."""
    written = {i for i, _record in living}
    return tuple(record.poll.site_id for i, record in enumerate(records) if i not in written)


def _in_messages(rows: list[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    """Splits content rows into pieces of bounded size: PostgreSQL accepts no message above 1 GiB."""
    piece: list[tuple[Any, ...]] = []
    size = 0
    for row in rows:
        if piece and size + row[3] > _BYTES_AT_ONCE:
            yield piece
            piece, size = [], 0
        piece.append(row)
        size += row[3]
    yield piece


def _poll_row(p: Poll) -> tuple[Any, ...]:
    return (
        p.site_id,
        p.at,
        p.elapsed,
        p.outcome.value,
        p.status,
        p.duration,
        p.bytes,
        p.changed,
        p.age,
        p.count,
        storable_word(p.detail),
        _redirects_text(p.redirects) if p.redirects else None,
    )


def _redirects_text(redirects: Sequence[Redirect]) -> str:
    # JSON escapes lone surrogates and NUL, so any URL fits.
    return json.dumps([[hop.status, hop.url] for hop in redirects])


def _stored_content(content: bytes, packed: Packed, is_current: bool) -> Packed:
    """Returns the content as storable: delta-encoded only if its base is sure to stay, as the current one's does."""
    return packed if packed.base_id is None or is_current else Packed(pack(content))


def _renews(record: PollRecord) -> bool:
    """Returns whether the record gives its site a new current content."""
    return bool(record.content) or any(selection.content for selection in record.selections)


def _content_row(record: PollRecord, baseline: Baseline, packed: Packed) -> tuple[Any, ...]:
    media = baseline.media.value if baseline.media is not None else ""
    poll, body, base_id = record.poll, packed.body, packed.base_id
    size = len(body) + len(record.screenshot or b"")
    return (poll.site_id, baseline.fingerprint, media, size, poll.at, poll.at, body, base_id)


def _change_row(
    poll: Poll, draft: ChangeDraft, before: int | None, after: int | None, selection: str | None = None
) -> tuple[Any, ...]:
    return (
        poll.site_id,
        _answered_at(poll),
        draft.previous_poll_at,
        draft.kind.value,
        storable_word(draft.summary),
        before,
        after,
        selection,
        draft.verdict.matters,
        storable_word(draft.verdict.why),
        poll.at,
    )


def _begins_anew(record: PollRecord) -> bool:
    baseline = record.context.baseline
    return not baseline.mask and not baseline.proven and not record.misled


def _answered_at(poll: Poll) -> float:
    """Returns when the answer was there: what it shows may have changed while the poll was under way."""
    return poll.at + poll.duration


def _state_row(record: PollRecord, new_content_id: int | None) -> tuple[Any, ...]:
    p, m = record.poll, record.context
    b = m.baseline
    return (
        p.at,
        record.last_seen_at,
        record.not_before,
        m.polls_since_full,
        p.outcome.value,
        storable_word(p.detail),
        encode_header(m.validators.etag),
        encode_header(m.validators.last_modified),
        storable(m.content_type),
        b.fingerprint,
        b.raw_fingerprint,
        b.reader,
        storable(b.no_text) or None,
        None if b.media is None else b.media.value,
        b.last_modified,
        b.last_modified_good,
        b.last_modified_bad,
        storable(m.redirect_url),
        m.redirect_count,
        b.items or None,
        b.ttl,
        b.ttl_broken,
        *window_columns(b.window),
        record.changes,
        int(record.hid_change),
        new_content_id,
        p.site_id,
    )


def _changes(ids: Sequence[int], drafts: list[tuple[int, tuple[Any, ...]]]) -> tuple[CommittedChange, ...]:
    return tuple(CommittedChange(id_, row[0], i) for id_, (i, row) in zip(ids, drafts, strict=True))
