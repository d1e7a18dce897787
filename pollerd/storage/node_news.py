"""News of a node's changes for the other nodes, sent by the database itself with the commit of the change.

Triggers notify which rows of a few tables were written, and that the outbox has new entries. Of these tables polls
write only that of the signal sources, if the site is one. A listener that was disconnected is notified of that, and has
to look at everything again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import StrEnum

import structlog
from sqlalchemy import Connection, text

from pollerd.errors import DatabaseUnavailableError
from pollerd.storage.engine import Database
from pollerd.storage.locks import WriterLocks
from pollerd.storage.node_values import NEWS_CHANNEL, NODE_ANSWER, NODE_QUESTION, POLL_REQUEST, SETTINGS_POLL

_FUNCTION = f"""
    CREATE OR REPLACE FUNCTION pollerd_notify() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM pg_notify('{NEWS_CHANNEL}', current_schema() || ' ' || TG_TABLE_NAME || ' '
            || coalesce(to_jsonb(coalesce(NEW, OLD)) ->> TG_ARGV[0], '0'));
        RETURN NULL;
    END $$
"""


class NewsTable(StrEnum):
    """Tables of which news tell, by name."""

    SITE = "site"
    SITE_MARK = "site_mark"
    TAG = "tag"
    RULE = "rule"
    CHANNEL = "channel"
    SOURCE = "source"
    JOB = "job"
    HOST_OVERRIDE = "host_override"
    ALLOCATION = "allocation"
    OUTBOX = "outbox"
    """Messages to be sent: told once for all that a statement adds, without keys."""
    SIGNAL_SOURCE = "signal_source"
    """Also written when one was read: after what it said."""
    HUB_SUBSCRIPTION = "hub_subscription"
    INTEREST = "interest"
    """Half-lives that were learned from reads: written when one moved noticeably."""
    SHARED_HOST = "shared_host"
    """A host that another node wants to ask, too: by its name, when its row is made."""
    POLL_REQUEST = POLL_REQUEST
    """No table: somebody asked for a poll of a site."""
    NODE_QUESTION = NODE_QUESTION
    """A question to one of the nodes; no row of it is told of by a trigger."""
    NODE_ANSWER = NODE_ANSWER
    """No table: the question of this number was answered."""
    SETTINGS_POLL = SETTINGS_POLL
    """No table: a site has settings by which it may be read now."""


_KEYS = {
    NewsTable.SITE_MARK: "site_id",
    NewsTable.TAG: "name",
    NewsTable.HOST_OVERRIDE: "host_id",
    NewsTable.INTEREST: "site_id",
    NewsTable.SHARED_HOST: "name",
}
_WITHOUT_TRIGGER = frozenset(
    {NewsTable.POLL_REQUEST, NewsTable.SETTINGS_POLL, NewsTable.NODE_QUESTION, NewsTable.NODE_ANSWER}
)
_KNOWN = frozenset[str](NewsTable)
_MADE_ONLY = frozenset({NewsTable.OUTBOX, NewsTable.SHARED_HOST})
"""Tables of whose later writes nobody is notified."""


@dataclass(frozen=True, slots=True)
class News:
    """Rows that were written."""

    table: NewsTable
    key: str
    """Of the row: its id, or the name of a tag or host; 0 where rows are told of together."""


def create_triggers(connection: Connection, locks: WriterLocks) -> None:
    """Has the database tell of what is written; may be repeated.

    Where it does already nothing is written: a trigger's creation waits for every transaction on its table.
    """
    tables = set(NewsTable) - _WITHOUT_TRIGGER
    statement = "SELECT count(*) FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid WHERE tgname = 'pollerd_news'"
    statement += " AND c.relnamespace = current_schema()::regnamespace"
    if connection.execute(text(statement)).scalar_one() == len(tables):
        return
    locks.make_triggers(connection)
    connection.execute(text(_FUNCTION))
    for table in sorted(tables):
        key = _KEYS.get(table, "id")
        connection.execute(text(f"DROP TRIGGER IF EXISTS pollerd_news ON {table.value}"))
        when = "INSERT" if table in _MADE_ONLY else "INSERT OR UPDATE OR DELETE"
        each = "STATEMENT" if table is NewsTable.OUTBOX else "ROW"
        connection.execute(
            text(
                f"CREATE TRIGGER pollerd_news AFTER {when} ON {table.value}"
                f" FOR EACH {each} EXECUTE FUNCTION pollerd_notify('{key}')"
            )
        )


_RETRY_SECONDS = 1.0
_ALIVE_SECONDS = 30.0


class NewsListener:
    """Listens on a connection of its own."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._log = structlog.get_logger("pollerd.storage")

    async def listen(self) -> AsyncIterator[News | None]:
        """Yields news for ever; None first, and whenever some may have been missed: look at everything then."""
        while True:
            try:
                async for news in self._of_one_connection():
                    yield news
            except DatabaseUnavailableError as error:
                self._log.warning("listening_failed", reason=str(error), effect="retried every second")
            await asyncio.sleep(_RETRY_SECONDS)

    async def _of_one_connection(self) -> AsyncIterator[News | None]:
        """Yields the news of one connection until it ends. Raises `DatabaseUnavailableError`."""
        queue: asyncio.Queue[str | None] = asyncio.Queue()
        listening = self._database.listening(NEWS_CHANNEL, queue.put_nowait, lambda: queue.put_nowait(None))
        async with listening as read:
            schema = await read(_schema)
            yield None
            while True:
                try:
                    payload = await asyncio.wait_for(queue.get(), _ALIVE_SECONDS)
                except TimeoutError:
                    await read(_schema)  # notices a connection that the network lost
                    continue
                if payload is None:
                    return
                where, table, key = payload.split(" ", 2)
                if where == schema and table in _KNOWN:  # not those of a later version
                    yield News(NewsTable(table), key)


def _schema(connection: Connection) -> str:
    return str(connection.execute(text("SELECT current_schema()")).scalar_one())
