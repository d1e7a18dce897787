"""The statements of the hot path, compiled once per dialect and run on tuples.

SQLAlchemy's own execution costs twice what the database does. Compiled here, statements keep both dialects in one place
and run through `exec_driver_sql`. Each declares the order of its parameters, which is checked on compilation.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Any, Protocol

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Dialect,
    Executable,
    Select,
    Table,
    Text,
    any_,
    bindparam,
    cast,
    column,
    delete,
    func,
    literal_column,
    select,
    true,
    update,
)
from sqlalchemy import table as sqlite_table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.types import TypeEngine

from pollerd.site_settings import COLUMNS
from pollerd.storage.locks import WriterLocks
from pollerd.storage.schema import (
    change,
    content,
    daemon_run,
    host,
    host_partition,
    incident,
    job_change,
    last_batch,
    learned,
    mask,
    node_state,
    outbox,
    poll,
    reading,
    screenshot,
    selection_state,
    site,
    site_state,
    site_tag,
    site_text,
    site_times,
)
from pollerd.texts import _

# Statements for many rows: SQLite runs them row by row, PostgreSQL once, with each column as an array.
#
# For SQLite each row is a function call. For PostgreSQL it would be a message, a portal and a plan; with arrays a whole
# batch needs one of each.

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
    results: list[Row] = []
    for parameters in statement.parameters(rows) if rows else ():
        result = connection.exec_driver_sql(statement.sql, parameters)
        if result.returns_rows:
            results += map(tuple, result)
    return results


def run_together(connection: Connection, *writes: tuple[ForEachRow, Sequence[Row]]) -> list[Row]:
    """Runs several statements, each for its rows; returns the rows that the last one returns.

    On PostgreSQL they are one statement, and one round trip, unless a row of a table is written twice. No two of them
    may write to one table, and none sees what another writes; only the last may return rows.
    """
    statements, values, returned = list[str](), list[Any](), list[Row]()
    in_one = True
    for statement, rows in writes:
        executions = list(statement.parameters(rows)) if rows and statement.at_once else []
        if rows and len(executions) != 1:
            in_one = False
            break
        if executions:
            statements.append(statement.sql)
            values.extend(executions[0])
    if not in_one:
        for statement, rows in writes:
            returned = run_each(connection, statement, rows) if rows else []
        return returned
    if not statements:
        return []
    result = connection.exec_driver_sql(_in_one(tuple(statements)), tuple(values))
    returns = bool(writes[-1][1]) and result.returns_rows
    return list(map(tuple, result)) if returns else []


@lru_cache(maxsize=256)
def _in_one(statements: tuple[str, ...]) -> str:
    """Returns PostgreSQL statements as one: all but the last in its WITH, their parameters numbered through."""
    numbered, before = [], 0
    for statement in statements:
        places = [int(place) for place in _PLACE.findall(statement)]
        numbered.append(_PLACE.sub(lambda match, before=before: f"${int(match[1]) + before}", statement))  # type: ignore[misc]
        before += max(places)
    *others, last = numbered
    parts = ", ".join(_("part_{n} AS ({query})", n=n, query=query) for n, query in enumerate(others))
    return f"WITH {parts} {last}" if others else last


def columns_of(types: Mapping[str, TypeEngine[Any]]) -> Any:
    """Returns a table `given` with these columns, in order, each from an array parameter of its name."""
    arrays = [bindparam(name, type_=ARRAY(kind)) for name, kind in types.items()]
    named = [column(name, kind) for name, kind in types.items()]
    return func.unnest(*arrays).table_valued(*named, name="given").render_derived(name="given")


HOT_STATE = [
    "last_poll_at",
    "last_seen_at",
    "not_before",
    "polls_since_full",
    "last_outcome",
    "last_detail",
    "etag",
    "last_modified",
    "content_type",
    "fingerprint",
    "raw_fingerprint",
    "reader",
    "no_text",
    "media",
    "lm_seen",
    "lm_good",
    "lm_bad",
    "redirect_url",
    "redirect_count",
    "items",
    "ttl",
    "ttl_broken",
    "items_shown",
    "feed_window",
]
"""Columns of `site_state` that a poll sets, in the order of `Statements.update_state`, followed by `add_changes`,
`add_hidden`, `new_content_id` and `key`."""
LISTED_STATE = ["state", "failures", "rate", "last_change_at"]
"""Columns of `site_state` that lists sort by: set only by polls that change one of them."""
TIMES = ["last_poll_at", "next_poll_at"]
"""Columns of `site_times`, which every poll sets."""
POLL = [
    "site_id",
    "at",
    "elapsed",
    "outcome",
    "status",
    "duration",
    "bytes",
    "changed",
    "age",
    "count",
    "detail",
    "redirects",
]
POLL_WITH_ITEMS = [*POLL, "at_least", "span"]
CONTENT = [
    "site_id",
    "fingerprint",
    "media",
    "size",
    "first_seen_at",
    "last_seen_at",
    "body",
    "base_id",
]
CHANGE = [
    "site_id",
    "detected_at",
    "previous_poll_at",
    "kind",
    "summary",
    "before_content_id",
    "after_content_id",
    "selection",
    "matters",
    "why",
    "poll_at",
]
SELECTION_STATE = [
    "site_id",
    "name",
    "version",
    "fingerprint",
    "reader",
    "media",
    "items",
    "mask",
    "proven",
    "content_id",
    "announced_id",
    "readings",
    "announced",
    "missing",
    "keeps_base",
]
NOTICE = [
    "event_id",
    "kind",
    "at",
    "rule_id",
    "channel_id",
    "site_id",
    "url",
    "change_id",
    "selection",
    "data",
    "digest",
    "waits_since",
    "due_at",
]
TEXT = ["site_id", "title", "words", "page_title"]
READING = ["site_id", "selection", "name", "at", "text", "number", "moment", "currency", "problem"]
_SET_LATER = frozenset({"windows"})
"""Settings that few sites of a list have: one statement a site."""
SITE_COLUMNS = [name for name in COLUMNS if name not in _SET_LATER]
SITE = ["created_at", "paused", *SITE_COLUMNS, "url", "host_id"]
"""Columns of a new site, in the order of `site_insertions`: those that sites of a list share, then URL and host."""
MEMORY = [
    "etag",
    "last_modified",
    "fingerprint",
    "raw_fingerprint",
    "reader",
    "no_text",
    "media",
    "items",
    "ttl",
    "ttl_broken",
    "feed_window",
    "lm_seen",
    "lm_good",
    "lm_bad",
    "polls_since_full",
    "content_id",
    "content_type",
    "redirect_url",
    "redirect_count",
    "last_outcome",
]


class ColumnSource(Protocol):
    """Parameters by name."""

    def __getitem__(self, name: str, /) -> Any: ...


class Statements:
    """The statements for one dialect, as text. `many` and `texts` build list parameters."""

    def __init__(self, dialect: Dialect, locks: WriterLocks | None = None) -> None:
        """locks: those of several writers, on PostgreSQL; None: there is one writer."""
        self._dialect = dialect
        self.locks = locks or WriterLocks()
        self.is_sqlite = dialect.name == "sqlite"
        self.insert_poll = self.insert_each(poll, POLL)
        self.insert_poll_with_items = self.insert_each(poll, POLL_WITH_ITEMS)
        self.insert_change = self._insert_change()
        self.insert_hosts = self._insert_hosts()
        self.insert_sites = self._insert_sites()
        self.set_access = self.update_each(site, ["access"])
        self.set_windows = self.update_each(site, ["windows"])
        self.insert_states = self._insert_for_new(site_state)
        self.insert_times = self._insert_for_new(site_times)
        self.insert_text = self.insert_each(site_text, TEXT)
        self.update_text = self.update_each(site_text, TEXT[1:], "site_id")
        texts = select(site.c.id, site.c.url, site.c.title, *(site_text.c[name] for name in TEXT[1:]))
        texts = texts.join_from(site, site_text).where(self.in_list(site.c.id, "sites"))
        self.texts = self.compiled(texts, ["sites"])
        self.last_site_id = self._last_site_id()
        self.insert_tag = self.insert_each(site_tag, ["site_id", "tag", "position"])
        self.upsert_content = self.insert_each(content, CONTENT, ["site_id", "fingerprint"], ["last_seen_at"])
        self.insert_screenshot = self.insert_each(screenshot, ["content_id", "body"])
        self.last_content_id = self.compiled(select(func.coalesce(func.max(content.c.id), literal_column("0"))), [])
        learned_columns = ["site_id", "allocator", "state"]
        self.upsert_learned = self.insert_each(learned, learned_columns, ["site_id"], ["allocator", "state"])
        node_columns = ["name", "allocator", "shared_state", "saved_at"]
        self.upsert_node_state = self.insert_each(node_state, node_columns, ["name"], node_columns[1:])
        self.upsert_mask = self.insert_each(mask, ["site_id", "mask", "since"], ["site_id"], ["mask", "since"])
        self.delete_mask = self._delete_mask()
        self.upsert_known_mask = self.insert_each(mask, ["site_id", "mask", "since"], ["site_id"], ["mask"])
        self.upsert_batch = self.insert_each(last_batch, ["writer", "batch"], ["writer"], ["batch"])
        self.update_state = self._update_state()
        # On PostgreSQL `update_state` sets them, too: an index is written only where its column differs.
        self.update_listed = self.update_each(site_state, LISTED_STATE, "site_id") if self.is_sqlite else None
        self.update_times = self.update_each(site_times, TIMES, "site_id")
        self.update_host = self.update_each(host, ["last_start_at", "paused_until", "throttles"])
        self.update_robots = self.update_each(
            host, ["robots_kind", "robots_body", "robots_at", "robots_detail", "crawl_delay"]
        )
        self.begin_commit = self._begin_commit()
        self.last_change_id = self.compiled(select(func.coalesce(func.max(change.c.id), literal_column("0"))), [])
        self.changes_after = self.compiled(
            select(change.c.id).where(change.c.id > bindparam("after")).order_by(change.c.id),
            ["after"],
        )
        self.changes_at = self.compiled(
            select(change.c.id, change.c.site_id, change.c.detected_at, change.c.selection).where(
                self.in_list(change.c.site_id, "sites"), change.c.detected_at >= bindparam("since")
            ),
            ["sites", "since"],
        )
        self.living_sites = self.compiled(self._living_sites(), ["sites"])
        self.held_sites = (
            "" if self.is_sqlite else self.compiled(self._living_sites(held=True), ["sites", "partitions"])
        )
        self.begin_node_commit = "" if self.is_sqlite else self._begin_commit(held=True)
        self.held_hosts = "" if self.is_sqlite else self._held_hosts()
        # Only those that a batch has just written: a busy site keeps thousands of others.
        self.contents_since = self.compiled(
            select(content.c.id, content.c.site_id, content.c.fingerprint).where(
                self.in_list(content.c.site_id, "sites"), content.c.last_seen_at >= bindparam("since")
            ),
            ["sites", "since"],
        )
        base = content.alias("base")
        self.delete_contents = self.compiled(delete(content).where(self.in_list(content.c.id, "ids")), ["ids"])
        self.contexts = self.compiled(
            select(
                site.c.id,
                site.c.url,
                site.c.settings_changed_at,
                site.c.access,
                site.c.selections,
                site.c.render,
                site.c.keep_screenshots,
                site.c.spelling,
                *(site_state.c[name] for name in MEMORY),
                mask.c.mask,
            )
            .join_from(site, site_state)
            .outerjoin(mask, mask.c.site_id == site.c.id)
            .where(self.in_list(site.c.id, "sites")),
            ["sites"],
        )
        states = selection_state.c
        self.selection_states = self.compiled(
            select(*(states[name] for name in SELECTION_STATE)).where(self.in_list(states.site_id, "sites")), ["sites"]
        )
        self.upsert_selection_state = self.insert_each(
            selection_state, SELECTION_STATE, ["site_id", "name"], SELECTION_STATE[2:]
        )
        self.insert_reading = self.insert_each(reading, READING)
        self.insert_job_change = self.insert_each(job_change, ["job_id", "site_id", "before"])
        # What is told already on a channel stays as it is.
        self.insert_notice = self.insert_each(outbox, NOTICE, ["event_id", "channel_id"], [])
        self.open_incident = self.insert_each(
            incident, ["rule_id", "site_id", "id", "since"], ["rule_id", "site_id"], ["id", "since"]
        )
        self.close_incident = self._close_incident()
        self.contents = self.compiled(
            select(content.c.id, content.c.body, content.c.base_id, base.c.body)
            .outerjoin_from(content, base, base.c.id == content.c.base_id)
            .where(self.in_list(content.c.id, "ids")),
            ["ids"],
        )

    def id_list(self, ids: Iterable[int]) -> Any:
        """Returns a list of ids, also numpy's, as one parameter."""
        plain = list(map(int, ids))
        return json.dumps(plain) if self.is_sqlite else plain

    def text_list(self, words: Iterable[str]) -> Any:
        """Returns a list of texts as one parameter."""
        return json.dumps(list(words)) if self.is_sqlite else list(words)

    def in_list(self, column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
        """Returns `column` IN the list parameter `name`: one statement for lists of any length."""
        if self.is_sqlite:
            values = func.json_each(bindparam(name, type_=Text)).table_valued("value")
            return column.in_(select(values.c.value))
        item = Text() if isinstance(column.type, Text) else BigInteger()
        return column == any_(bindparam(name, type_=ARRAY(item)))

    def rows_at(self, key: Column[Any], name: str, *columns: Column[Any]) -> Select[Any]:
        """Selects these columns of the rows whose `key` is in the list parameter `name`.

        A row is returned once per occurrence in the list. SQLite looks rows up one by one in the order of the list;
        with `among` it would sort the list first, which doubles the time.
        """
        if not self.is_sqlite:
            return select(*columns).where(self.in_list(key, name))
        elements = func.json_each(bindparam(name, type_=Text)).table_valued("value")
        return select(*columns).select_from(elements.join(key.table, key == elements.c.value))

    def insert_for(self, table: Table) -> Any:
        """Returns the dialect's own insert, which supports ON CONFLICT."""
        return sqlite.insert(table) if self.is_sqlite else postgresql.insert(table)

    def _insert_hosts(self) -> str:
        """Inserts many new names at once; returns name and id of each."""
        if self.is_sqlite:
            names: Any = func.json_each(bindparam("names", type_=Text)).table_valued("value").c.value
        else:
            names = columns_of({"names": Text()}).c.names
        statement = self.insert_for(host).from_select(["name"], select(names), include_defaults=False)
        return self.compiled(statement.returning(host.c.name, host.c.id), ["names"])

    def _insert_sites(self) -> str:
        """Inserts many sites at once. On SQLite they share all settings, and get ids from `first` on.

        The database iterates itself: one call per row would take twice as long and block other threads. Returning ids
        would take SQLite a third of the time, so they are given; PostgreSQL returns URL and id of each.
        """
        types = {name: site.c[name].type for name in SITE}
        if self.is_sqlite:
            elements = func.json_each(bindparam("sites", type_=Text)).table_valued("key", "value").c
            settings = [bindparam(name, type_=types[name]) for name in SITE[:-2]]
            pair = (func.json_extract(elements.value, literal_column(f"'$[{place}]'")) for place in range(2))
            rows = select(bindparam("first", type_=BigInteger) + elements.key, *settings, *pair)
            statement = self.insert_for(site).from_select(["id", *SITE], rows, include_defaults=False)
            return self.compiled(statement, ["first", *SITE[:-2], "sites"])
        statement = self.insert_for(site).from_select(SITE, select(*columns_of(types).c), include_defaults=False)
        return self.compiled(statement.returning(site.c.url, site.c.id), SITE)

    def site_insertions(self, first: int, rows: Sequence[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        """Yields the parameter sets of `insert_sites` for new sites, rows of the columns `SITE`.

        first: the id of the first of them, on SQLite.
        """
        if not self.is_sqlite:
            yield tuple(map(list, zip(*rows, strict=True)))
            return
        for settings, group in groupby(rows, key=itemgetter(slice(None, -2))):
            pairs = [*map(itemgetter(slice(-2, None)), group)]
            yield (first, *settings, json.dumps(pairs))
            first += len(pairs)

    def _last_site_id(self) -> str:
        """Selects the highest id that a site ever had, on SQLite: ids are never reused."""
        sequence = sqlite_table("sqlite_sequence", column("name"), column("seq"))
        last = select(sequence.c.seq).where(sequence.c.name == literal_column(f"'{site.name}'")).scalar_subquery()
        return self.compiled(select(func.coalesce(last, literal_column("0"))), [])

    def _insert_for_new(self, table: Table) -> str:
        """Inserts a row for each of many sites, up to a million in an import: ids from `first` on, or in `sites`."""
        if self.is_sqlite:
            new, order = site.c.id >= bindparam("first", type_=BigInteger), ["first"]
        else:
            new, order = self.in_list(site.c.id, "sites"), ["sites"]
        rows = self.insert_for(table).from_select(["site_id"], select(site.c.id).where(new), include_defaults=False)
        return self.compiled(rows, order)

    def for_each(
        self,
        statement: Callable[[ColumnSource], Executable],
        types: Mapping[str, TypeEngine[Any]],
        key: Sequence[str] = (),
    ) -> ForEachRow:
        """Compiles `statement` with the parameters named in `types`, in their order, for `run_each`.

        key: names of those that identify the written row, if it may exist already.
        """
        order = list(types)
        if self.is_sqlite:
            of_one = {name: bindparam(name, type_=kind) for name, kind in types.items()}
            return ForEachRow(self.compiled(statement(of_one), order), at_once=False)
        places = tuple(order.index(name) for name in key)
        return ForEachRow(self.compiled(statement(columns_of(types).c), order), at_once=True, key=places)

    def insert_each(
        self, table: Table, columns: Sequence[str], key: Sequence[str] = (), renewed: Sequence[str] | None = None
    ) -> ForEachRow:
        """Inserts rows of these columns. renewed: columns to update if the `key` exists; empty: none."""

        def insertion(source: ColumnSource) -> Any:
            statement = self._insertion(table, columns, source)
            if renewed is None:
                return statement
            if not renewed:
                return statement.on_conflict_do_nothing(index_elements=key)
            fresh = {name: statement.excluded[name] for name in renewed}
            return statement.on_conflict_do_update(index_elements=key, set_=fresh)

        return self.for_each(insertion, {name: table.c[name].type for name in columns}, key if renewed else ())

    def _insertion(self, table: Table, columns: Sequence[str], source: ColumnSource) -> Any:
        statement = self.insert_for(table)
        if self.is_sqlite:
            return statement.values({name: source[name] for name in columns})
        rows = select(*(source[name] for name in columns))
        return statement.from_select(list(columns), rows, include_defaults=False)

    def _insert_change(self) -> ForEachRow:
        """Inserts changes. On PostgreSQL it returns the new ids, which SQLite does not for several rows.

        With several writers it tells the others the last of them, within the transaction.
        """

        def insertion(source: ColumnSource) -> Any:
            statement = self._insertion(change, CHANGE, source)
            if self.is_sqlite:
                return statement
            if not self.locks.several:
                return statement.returning(change.c.id)
            new = statement.returning(change.c.id).cte("new")
            message = func.pg_notify(literal_column(f"'{self.locks.channel}'"), cast(func.max(new.c.id), Text))
            told = select(message.label("told")).select_from(new).cte("told")
            return select(new.c.id).select_from(new.join(told, literal_column("true")))

        return self.for_each(insertion, {name: change.c[name].type for name in CHANGE})

    def update_each(self, table: Table, columns: Sequence[str], key: str = "id") -> ForEachRow:
        """Sets these columns of the row whose `key` is the last parameter, "key"."""
        types = {name: table.c[name].type for name in columns} | {"key": table.c[key].type}

        def change(source: ColumnSource) -> Executable:
            values: list[tuple[Any, Any]] = [(table.c[name], source[name]) for name in columns]
            return update(table).ordered_values(*values).where(table.c[key] == source["key"])

        return self.for_each(change, types, ["key"])

    def _update_state(self) -> ForEachRow:
        c, number = site_state.c, BigInteger()
        names = HOT_STATE if self.is_sqlite else [*LISTED_STATE, *HOT_STATE]
        types: dict[str, TypeEngine[Any]] = {name: c[name].type for name in names}
        types |= {"add_changes": number, "add_hidden": number, "new_content_id": number, "key": number}

        def change(source: ColumnSource) -> Executable:
            values: list[tuple[Any, Any]] = [(c[name], source[name]) for name in names]
            counted: list[tuple[Any, Any]] = [  # a bound 1 would be a parameter of every row
                (c.polls, c.polls + literal_column("1", BigInteger)),
                (c.changes, c.changes + source["add_changes"]),
                (c.hidden_changes, c.hidden_changes + source["add_hidden"]),
                (c.content_id, func.coalesce(source["new_content_id"], c.content_id)),
            ]
            return update(site_state).ordered_values(*values, *counted).where(c.site_id == source["key"])

        return self.for_each(change, types, ["key"])

    def _close_incident(self) -> ForEachRow:
        c = incident.c

        def end(source: ColumnSource) -> Executable:
            return delete(incident).where(c.rule_id == source["rule_id"], c.site_id == source["site_id"])

        return self.for_each(end, {name: c[name].type for name in ("rule_id", "site_id")})

    def _delete_mask(self) -> ForEachRow:
        def end(source: ColumnSource) -> Executable:
            return delete(mask).where(mask.c.site_id == source["site_id"])

        return self.for_each(end, {"site_id": mask.c.site_id.type})

    def _living_sites(self, *, held: bool = False) -> Select[Any]:
        """held: only those in the list parameter "partitions"."""
        statement = (
            select(
                site.c.id,
                site.c.url,
                site.c.selections,
                site.c.settings_changed_at,
                site_state.c.fingerprint.is_(None).label("begins_anew"),
                site_state.c.content_id,
                *(site_state.c[name] for name in LISTED_STATE),
            )
            .join_from(site, site_state)
            .where(self.in_list(site.c.id, "sites"))
        )
        if held:
            statement = statement.join(host_partition, host_partition.c.host_id == site.c.host_id)
            statement = statement.where(self.in_list(host_partition.c.partition, "partitions"))
        if not self.is_sqlite:
            # Prevents deletion of a site between this read and the commit.
            statement = statement.with_for_update(key_share=True, of=site, read=True)
        return statement

    def _begin_commit(self, *, held: bool = False) -> str:
        """Selects a writer's last committed batch and last run; on PostgreSQL beside each row of `living_sites`.

        That saves a round trip. Where no site lives there is one row, whose id is NULL. held: see `_living_sites`.
        """
        batch, last_run = last_batch.c, daemon_run.c
        last = select(
            select(batch.batch).where(batch.writer == bindparam("writer")).scalar_subquery().label("batch"),
            select(func.max(last_run.id)).where(last_run.writer == bindparam("runner")).scalar_subquery().label("run"),
        )
        if self.is_sqlite:
            return self.compiled(last, ["writer", "runner"])
        at_once, living = last.subquery("last"), self._living_sites(held=held).subquery("living")
        both = select(*at_once.c, *living.c).select_from(at_once.outerjoin(living, true()))
        return self.compiled(both, ["writer", "runner", "sites", *(["partitions"] if held else [])])

    def _held_hosts(self) -> str:
        c = host_partition.c
        held = select(c.host_id).where(self.in_list(c.host_id, "hosts"), self.in_list(c.partition, "partitions"))
        return self.compiled(held, ["hosts", "partitions"])

    def compiled(self, statement: Executable, order: list[str]) -> str:
        """Returns the statement as text, for `run`; `order`: names of its parameters, in order."""
        compiled: Any = statement.compile(dialect=self._dialect)  # type: ignore[attr-defined]
        names = list(compiled.positiontup or [])
        if names != order:
            raise AssertionError(f"parameters come as {names}, not as {order}")
        return str(compiled)


def run(connection: Connection, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """Returns the rows of one statement for one set of parameters."""
    result = connection.exec_driver_sql(sql, parameters)
    return [*map(tuple, result.all())] if result.returns_rows else []  # row by row takes thrice as long
