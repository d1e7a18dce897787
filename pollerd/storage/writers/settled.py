"""Up to which id all contents are committed, where several writers commit them out of the order of their ids."""

from __future__ import annotations

import asyncio

from sqlalchemy import Connection

from pollerd.storage.db.engine import Database
from pollerd.storage.db.statements import Statements, run

_LOOK_AGAIN_SECONDS = 0.05
_LOOKS = 100
# Whoever inserts holds this lock from before its first id is drawn until its end.
_UNDER_WAY = """
    SELECT virtualtransaction FROM pg_locks
    WHERE locktype = 'relation' AND relation = 'content'::regclass AND mode = 'RowExclusiveLock' AND granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


async def settled_content_id(database: Database, sql: Statements) -> int | None:
    """Returns an id up to which no more contents will be committed; None: any, there is one writer.

    Waits for the transactions that are writing contents now, for a few seconds at most: where one lasts longer it
    returns 0, and another time will do.
    """
    if not sql.locks.several:
        return None
    newest = await database.read(lambda c: int(run(c, sql.last_content_id)[0][0]))
    waited_for = await database.read(_under_way)
    for _ in range(_LOOKS):
        if not waited_for:
            return newest
        await asyncio.sleep(_LOOK_AGAIN_SECONDS)
        waited_for &= await database.read(_under_way)
    return 0


def _under_way(connection: Connection) -> set[str]:
    """Returns the transactions that write contents."""
    return {str(row[0]) for row in run(connection, _UNDER_WAY)}
