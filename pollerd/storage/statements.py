"""Every statement of the hot path, compiled once for a dialect, to be run on tuples.

SQLAlchemy's own execution costs twice what the database does. Compiled here, statements keep both dialects in one
place and go through `exec_driver_sql`. Each names the order of its parameters, and that order is checked when it is
compiled.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Connection,
    Dialect,
    Executable,
    Table,
    Text,
    any_,
    bindparam,
    delete,
    func,
    insert,
    literal_column,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from pollerd.storage.schema import (
    change,
    content,
    daemon_run,
    host,
    last_batch,
    learned,
    mask,
    poll,
    site,
    site_state,
    site_tag,
)

HOT_STATE = [
    "state",
    "last_poll_at",
    "last_seen_at",
    "not_before",
    "failures",
    "polls_since_full",
    "last_outcome",
    "last_detail",
    "etag",
    "last_modified",
    "content_type",
    "fingerprint",
    "raw_fingerprint",
    "media",
    "lm_seen",
    "lm_good",
    "lm_bad",
    "redirect_url",
    "redirect_count",
    "items",
]
"""Columns of `site_state` that a poll sets, in the order of `Statements.update_state`, after them
`add_changes`, `new_content_id` and `key`."""
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
]
SITE = [
    "url",
    "host_id",
    "created_at",
    "paused",
    "weight",
    "cost",
    "min_interval",
    "max_interval",
    "half_life",
    "access",
]
MEMORY = [
    "etag",
    "last_modified",
    "fingerprint",
    "raw_fingerprint",
    "media",
    "items",
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


class Statements:
    """The statements for one dialect, as text. `many` and `texts` make the parameter of a list."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self.is_sqlite = dialect.name == "sqlite"
        self.insert_poll = self._insert(poll, POLL)
        self.insert_change = self._insert(change, CHANGE)
        self.insert_host = self._insert(host, ["name"])
        self.insert_site = self._insert(site, SITE)
        self.insert_states = self._insert_states()
        self.insert_tag = self._insert(site_tag, ["site_id", "tag"])
        self.upsert_content = self._upsert(content, CONTENT, ["site_id", "fingerprint"], ["last_seen_at"])
        learned_columns = ["site_id", "allocator", "state"]
        self.upsert_learned = self._upsert(learned, learned_columns, ["site_id"], ["allocator", "state"])
        self.upsert_mask = self._upsert(mask, ["site_id", "mask", "since"], ["site_id"], ["mask", "since"])
        self.upsert_batch = self._upsert(last_batch, ["id", "batch"], ["id"], ["batch"])
        self.update_state = self._update_state()
        self.update_host = self._update(host, ["last_start_at", "paused_until", "throttles"])
        self.update_robots = self._update(
            host, ["robots_kind", "robots_body", "robots_at", "robots_detail", "crawl_delay"]
        )
        # One round trip for both: has the batch gone in before, and is our run still the last?
        self.last_batch_and_run = self.compiled(
            select(
                select(last_batch.c.batch).scalar_subquery(),
                select(func.max(daemon_run.c.id)).scalar_subquery(),
            ),
            [],
        )
        self.last_change_id = self.compiled(select(func.coalesce(func.max(change.c.id), literal_column("0"))), [])
        self.changes_after = self.compiled(
            select(change.c.id, change.c.site_id).where(change.c.id > bindparam("after")).order_by(change.c.id),
            ["after"],
        )
        self.changes_at = self.compiled(
            select(change.c.id, change.c.site_id, change.c.detected_at).where(
                self.among(change.c.site_id, "sites"), change.c.detected_at >= bindparam("since")
            ),
            ["sites", "since"],
        )
        self.living_sites = self._living_sites()
        self.contents_of_sites = self.compiled(
            select(content.c.id, content.c.site_id, content.c.fingerprint, content.c.base_id)
            .where(self.among(content.c.site_id, "sites"))
            .order_by(content.c.last_seen_at.desc(), content.c.id.desc()),
            ["sites"],
        )
        base = content.alias("base")
        self.delete_contents = self.compiled(delete(content).where(self.among(content.c.id, "ids")), ["ids"])
        self.memories = self.compiled(
            select(
                site.c.id,
                site.c.url,
                site.c.settings_changed_at,
                site.c.access,
                *(site_state.c[name] for name in MEMORY),
                mask.c.mask,
            )
            .join_from(site, site_state)
            .outerjoin(mask, mask.c.site_id == site.c.id)
            .where(self.among(site.c.id, "sites")),
            ["sites"],
        )
        self.contents = self.compiled(
            select(content.c.id, content.c.body, content.c.base_id, base.c.body)
            .outerjoin_from(content, base, base.c.id == content.c.base_id)
            .where(self.among(content.c.id, "ids")),
            ["ids"],
        )

    def many(self, ids: Iterable[int]) -> Any:
        """A list of ids, numpy's too, as one parameter."""
        plain = [int(one) for one in ids]
        return json.dumps(plain) if self.is_sqlite else plain

    def texts(self, words: Iterable[str]) -> Any:
        """A list of texts as one parameter."""
        return json.dumps(list(words)) if self.is_sqlite else list(words)

    def among(self, column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
        """`column` stands in the list that parameter `name` holds: one statement for lists of any length."""
        if self.is_sqlite:
            values = func.json_each(bindparam(name, type_=Text)).table_valued("value")
            return column.in_(select(values.c.value))
        item = Text() if isinstance(column.type, Text) else BigInteger()
        return column == any_(bindparam(name, type_=ARRAY(item)))

    def insert_for(self, table: Table) -> Any:
        """The dialect's own insert, which knows ON CONFLICT."""
        return sqlite.insert(table) if self.is_sqlite else postgresql.insert(table)

    def _insert(self, table: Table, columns: list[str]) -> str:
        return self.compiled(insert(table).values({c: bindparam(c) for c in columns}), columns)

    def _insert_states(self) -> str:
        """Of many sites at once: a million come in one import."""
        sites = select(site.c.id).where(self.among(site.c.id, "sites"))
        return self.compiled(insert(site_state).from_select(["site_id"], sites, include_defaults=False), ["sites"])

    def _upsert(self, table: Table, columns: list[str], key: list[str], renewed: list[str]) -> str:
        statement = self.insert_for(table).values({c: bindparam(c) for c in columns})
        fresh = {c: statement.excluded[c] for c in renewed}
        return self.compiled(statement.on_conflict_do_update(index_elements=key, set_=fresh), columns)

    def _update(self, table: Table, columns: list[str]) -> str:
        values: list[tuple[Any, Any]] = [(table.c[c], bindparam(c)) for c in columns]
        statement = update(table).ordered_values(*values).where(table.c.id == bindparam("key"))
        return self.compiled(statement, [*columns, "key"])

    def _update_state(self) -> str:
        c = site_state.c
        values: list[tuple[Any, Any]] = [(c[name], bindparam(name)) for name in HOT_STATE]
        counted: list[tuple[Any, Any]] = [  # a bound 1 would be a parameter of every row
            (c.polls, c.polls + literal_column("1", BigInteger)),
            (c.changes, c.changes + bindparam("add_changes", type_=BigInteger)),
            (c.content_id, func.coalesce(bindparam("new_content_id", type_=BigInteger), c.content_id)),
        ]
        statement = update(site_state).ordered_values(*values, *counted).where(c.site_id == bindparam("key"))
        return self.compiled(statement, [*HOT_STATE, "add_changes", "new_content_id", "key"])

    def _living_sites(self) -> str:
        statement = (
            select(site.c.id, site.c.url, site_state.c.content_id)
            .join_from(site, site_state)
            .where(self.among(site.c.id, "sites"))
        )
        if not self.is_sqlite:
            # Nobody may delete a site between this look and the commit.
            statement = statement.with_for_update(key_share=True, of=site, read=True)
        return self.compiled(statement, ["sites"])

    def compiled(self, statement: Executable, order: list[str]) -> str:
        """The statement as text, for `run` and `run_each`; `order`: names of its parameters, as they come."""
        compiled: Any = statement.compile(dialect=self._dialect)  # type: ignore[attr-defined]
        found = list(compiled.positiontup or [])
        if found != order:
            raise AssertionError(f"parameters come as {found}, not as {order}")
        return str(compiled)


def run(connection: Connection, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """The rows that one statement gives for one set of parameters."""
    result = connection.exec_driver_sql(sql, parameters)
    return [tuple(row) for row in result] if result.returns_rows else []


def run_each(connection: Connection, sql: str, rows: list[tuple[Any, ...]]) -> None:
    """One statement for many sets of parameters; nothing for none."""
    if rows:
        connection.exec_driver_sql(sql, rows)
