"""What of a database's errors is waited for, and what is a fault of ours: by table, over every class there is."""

from __future__ import annotations

import errno
import re
import socket
import sqlite3
import ssl
from typing import Any

import asyncpg
import pytest
from asyncpg import exceptions
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from pollerd.errors import DatabaseUnavailableError, InvalidValueError, SchemaError
from pollerd.storage.engine import mapped
from pollerd.storage.store import Store

PASSES, OURS = "passes", "ours"
# Each class of the appendix "PostgreSQL Error Codes", and indented the codes that differ from their class.
CLASSES = {
    "02": PASSES,  # no data
    "03": PASSES,  # statement not yet complete
    "08": PASSES,  # connection
    "09": PASSES,  # triggered action: a trigger is the administrator's
    "0A": PASSES,  # not supported: a cached plan after somebody's ALTER TABLE
    "0B": PASSES,
    "0F": PASSES,
    "0L": PASSES,
    "0P": PASSES,  # invalid role: the role was dropped
    "0Z": PASSES,
    "10": PASSES,
    "20": PASSES,
    "21": OURS,
    "22": OURS,
    "23": OURS,
    "24": PASSES,
    "25": PASSES,  # read-only after a failover, idle or long in a transaction
    "26": PASSES,  # a pooler dropped the prepared statement
    "27": PASSES,
    "28": PASSES,  # password, pg_hba
    "2B": PASSES,
    "2D": PASSES,
    "2F": PASSES,
    "34": PASSES,
    "38": PASSES,
    "39": PASSES,
    "3B": PASSES,
    "3D": PASSES,  # database dropped or renamed
    "3F": PASSES,  # schema dropped or renamed
    "40": PASSES,  # deadlock, serialization
    "42": OURS,
    "44": PASSES,
    "53": PASSES,  # disk or memory full, too many connections
    "54": OURS,
    "55": PASSES,  # lock not available, ALLOW_CONNECTIONS false
    "57": PASSES,  # shutdown, starting up, cancelled, database dropped, idle_session_timeout
    "58": PASSES,  # I/O error
    "72": PASSES,
    "F0": PASSES,
    "HV": PASSES,
    "P0": PASSES,  # raised by somebody's trigger
    "XX": PASSES,
}
CODES = {
    "25001": OURS,
    "25P01": OURS,
    "25P02": OURS,
    "25006": PASSES,
    "25P03": PASSES,
    "25P04": PASSES,
    "42501": PASSES,  # CONNECT or more was revoked
    "42P01": PASSES,
    "42P05": PASSES,
    "42601": OURS,
    "42703": OURS,
    "53100": PASSES,
    "53300": PASSES,
    "55000": PASSES,
    "55P03": PASSES,
    "57014": PASSES,
    "57P01": PASSES,
    "57P03": PASSES,
    "57P04": PASSES,
    "57P05": PASSES,
    "08P01": PASSES,  # what poolers say of all sorts of things
    "XX000": PASSES,
    "99999": PASSES,  # of a later server
}


def known_codes() -> list[str]:
    """Every SQLSTATE that the driver has a class for."""
    classes = [found for found in vars(exceptions).values() if isinstance(found, type)]
    states = {getattr(found, "sqlstate", None) for found in classes}
    return sorted(state for state in states if state is not None and len(state) == 5)


def expected(sqlstate: str) -> str:
    return CODES.get(sqlstate) or CLASSES[sqlstate[:2]]


def given(error: Exception) -> type[BaseException]:
    with pytest.raises(Exception) as caught, mapped():
        raise error
    return caught.type


def server_error(sqlstate: str) -> asyncpg.PostgresError:
    error = asyncpg.PostgresError("the server says no")
    error.sqlstate = sqlstate
    return error


def as_sqlalchemy_gives_it(error: Exception) -> DBAPIError:
    """With the dialect's own exception in between, as in life."""
    between = Exception(str(error))
    between.__cause__ = error
    return DBAPIError("INSERT …", {}, between)


def test_every_class_is_in_the_table() -> None:
    assert {code[:2] for code in known_codes()} - {"00", "01"} <= set(CLASSES)
    assert len(known_codes()) > 200


@pytest.mark.parametrize("wrapped", [False, True])
def test_postgres_by_table(wrapped: bool) -> None:
    wrong = []
    for code in {*known_codes(), *CODES, *(f"{group}000" for group in CLASSES)}:
        if code[:2] in ("00", "01"):
            continue
        error: Exception = server_error(code)
        error = as_sqlalchemy_gives_it(error) if wrapped else error
        wanted = DatabaseUnavailableError if expected(code) == PASSES else type(error)
        if given(error) is not wanted:
            wrong.append(code)
    assert not wrong


def test_the_reason_names_the_code() -> None:
    with pytest.raises(DatabaseUnavailableError, match=r"^the server says no \(SQLSTATE 55000\)$"), mapped():
        raise as_sqlalchemy_gives_it(server_error("55000"))


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError("refused"),
        TimeoutError(),
        OSError(-2, "Name or service not known"),
        ssl.SSLCertVerificationError("certificate has expired"),
        asyncpg.InterfaceError("connection is closed"),
        asyncpg.InternalClientError("got no greeting"),
        PoolTimeoutError("no connection was free"),
        as_sqlalchemy_gives_it(ConnectionResetError("reset")),
        as_sqlalchemy_gives_it(asyncpg.InternalClientError("another operation (2) is in progress")),
        DBAPIError("SELECT 1", {}, Exception("gone"), connection_invalidated=True),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_connection_that_fails_passes(error: Exception) -> None:
    assert given(error) is DatabaseUnavailableError


LOST = "the connection to the database was lost"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('10.0.0.7', 5432)"),
            "the database cannot be reached: Connection refused",
        ),
        (OSError("Multiple exceptions: [Errno 111] Connect call failed"), "the database cannot be reached"),
        (socket.gaierror(-2, "Name or service not known"), "the database cannot be reached: Name or service not known"),
        (TimeoutError(), "the database does not answer in time"),
        (asyncpg.InterfaceError("cannot perform operation: another operation is in progress"), LOST),
        (asyncpg.InternalClientError("got result for unknown protocol state 3"), LOST),
        (asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation"), LOST),
        (as_sqlalchemy_gives_it(asyncpg.InternalClientError("another operation (2) is in progress")), LOST),
        (
            PoolTimeoutError(
                "QueuePool limit of size 5 overflow 10 reached (Background on this error at: https://sqlalche.me)"
            ),
            "no connection to the database was free in time",
        ),
    ],
)
def test_the_reason_has_no_words_of_drivers(error: Exception, said: str) -> None:
    with pytest.raises(DatabaseUnavailableError, match=f"^{re.escape(said)}$"), mapped():
        raise error


@pytest.mark.parametrize("error", [TypeError("ours"), KeyError("ours"), asyncpg.DataError("an int too large")])
def test_what_our_own_code_raises_is_ours(error: Exception) -> None:
    assert given(error) is type(error)


def sqlite_error(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("SQLite says no")
    error.sqlite_errorcode = code
    return error


SQLITE = {
    "SQLITE_ERROR": OURS,
    "SQLITE_TOOBIG": OURS,
    "SQLITE_CONSTRAINT": OURS,
    "SQLITE_MISMATCH": OURS,
    "SQLITE_MISUSE": OURS,
    "SQLITE_RANGE": OURS,
    "SQLITE_CORRUPT": "damaged",
    "SQLITE_NOTADB": "damaged",
}
SQLITE_PASSING = {
    "SQLITE_INTERNAL",
    "SQLITE_PERM",
    "SQLITE_ABORT",
    "SQLITE_BUSY",
    "SQLITE_LOCKED",
    "SQLITE_NOMEM",
    "SQLITE_READONLY",
    "SQLITE_INTERRUPT",
    "SQLITE_IOERR",
    "SQLITE_NOTFOUND",
    "SQLITE_FULL",
    "SQLITE_CANTOPEN",
    "SQLITE_PROTOCOL",
    "SQLITE_EMPTY",
    "SQLITE_SCHEMA",
    "SQLITE_NOLFS",
    "SQLITE_AUTH",
    "SQLITE_FORMAT",
}


def test_sqlite_by_table() -> None:
    kinds: dict[str, Any] = {PASSES: DatabaseUnavailableError, "damaged": SchemaError}
    primary = {code: name for name, code in vars(sqlite3).items() if name in SQLITE or name in SQLITE_PASSING}
    assert sorted(primary) == list(range(1, 27)), "every primary code"
    for code, name in primary.items():
        for extended in (code, code | 3 << 8):
            for error in (sqlite_error(extended), OperationalError("INSERT …", {}, sqlite_error(extended))):
                assert given(error) is kinds.get(SQLITE.get(name, PASSES), type(error)), name


async def test_an_option_that_the_driver_does_not_know_is_named() -> None:
    with pytest.raises(InvalidValueError, match="'sslmode'"):
        await Store.open("postgresql://u@127.0.0.1/x?sslmode=require")


async def test_tls_that_the_server_does_not_speak_is_waited_for(postgres_url: str) -> None:
    """The option reaches the session that holds the lock, too."""
    with pytest.raises(DatabaseUnavailableError, match="SSL"):
        await Store.open(f"{postgres_url}?ssl=require")
    store = await Store.open(f"{postgres_url}?ssl=prefer")
    await store.check()
    await store.close()
