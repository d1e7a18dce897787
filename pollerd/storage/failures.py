"""Foreign database errors become ours here: what may pass by itself, and what is a bug and stays as it is."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from pollerd.errors import DatabaseUnavailableError, SchemaError

# Primary SQLite result codes that are the world's fault, not the statement's.
_SQLITE_TRANSIENT = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
    }
)
_SQLITE_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
# PostgreSQL: connection, resources (disk full), operator (shutdown), system, rollback (deadlock), authorisation;
# no such database; read-only; lock not available.
_POSTGRES_TRANSIENT_CLASSES = frozenset({"08", "53", "57", "58", "40", "28"})
_POSTGRES_TRANSIENT = frozenset({"3D000", "25006", "55P03"})


@contextmanager
def mapped() -> Iterator[None]:
    """Raise `DatabaseUnavailableError` for whatever a database may recover from, `SchemaError` for a damaged file.

    The cause is kept. Everything else is a bug and passes as it is.
    """
    try:
        yield
    except DBAPIError as error:
        if _is_damage(error.orig):
            raise SchemaError(_one_line(error.orig or error)) from error
        if not _is_transient(error):
            raise
        raise DatabaseUnavailableError(_one_line(error.orig or error)) from error
    except (asyncpg.PostgresError, sqlite3.Error) as error:
        if _is_damage(error):
            raise SchemaError(_one_line(error)) from error
        if not _is_transient_cause(error):
            raise
        raise DatabaseUnavailableError(_one_line(error)) from error
    except (OSError, PoolTimeoutError, asyncpg.InterfaceError) as error:  # OSError includes TimeoutError
        raise DatabaseUnavailableError(_one_line(error)) from error


def _is_transient(error: DBAPIError) -> bool:
    if error.connection_invalidated:
        return True
    causes: list[BaseException | None] = [error.orig, getattr(error.orig, "__cause__", None)]
    return any(_is_transient_cause(cause) for cause in causes)


def _is_transient_cause(cause: BaseException | None) -> bool:
    if isinstance(cause, (OSError, asyncpg.InterfaceError)):
        return True
    code = getattr(cause, "sqlite_errorcode", None)
    if code is not None:
        return (code & 0xFF) in _SQLITE_TRANSIENT
    state = getattr(cause, "sqlstate", None)
    return state is not None and (state[:2] in _POSTGRES_TRANSIENT_CLASSES or state in _POSTGRES_TRANSIENT)


def _is_damage(cause: BaseException | None) -> bool:
    code = getattr(cause, "sqlite_errorcode", None)
    return code is not None and (code & 0xFF) in _SQLITE_DAMAGED


def _one_line(error: BaseException) -> str:
    words = str(error).split("\n", 1)[0].strip()
    return words or type(error).__name__
