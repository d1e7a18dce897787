"""Methods that are transactions: written with a connection, called without one."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from pollerd.storage.engine import Database

P = ParamSpec("P")
T = TypeVar("T")


class Subject:
    """What the database holds of one subject; the methods that `reads` and `writes` decorate are transactions.

    Each of them raises `DatabaseUnavailableError` if the database is locked, full, missing or not answering; nothing
    was written then, and the call may be repeated.
    """

    _database: Database


S = TypeVar("S", bound=Subject)


def reads(method: Callable[Concatenate[S, Connection, P], T]) -> Transaction[S, P, T]:
    """Makes a method with a connection one that is called without, and awaited: `Database.read` runs it.

    `subject.method.within(connection, ...)` runs it within the caller's transaction.
    """
    return Transaction(method, writing=False)


def writes(method: Callable[Concatenate[S, Connection, P], T]) -> Transaction[S, P, T]:
    """Does as `reads` does, with `Database.write`: what the method wrote is committed when it returns, if it does."""
    return Transaction(method, writing=True)


class Transaction(Generic[S, P, T]):
    """A method of a subject that is one transaction."""

    def __init__(self, method: Callable[Concatenate[S, Connection, P], T], *, writing: bool) -> None:
        """method: takes a connection after itself. writing: whether it runs in the one transaction that writes."""
        self.method, self.writing = method, writing
        self.__name__, self.__qualname__, self.__module__ = method.__name__, method.__qualname__, method.__module__
        self.__doc__ = method.__doc__

    @overload
    def __get__(self, subject: None, owner: type[S]) -> Self: ...

    @overload
    def __get__(self, subject: S, owner: type[S]) -> BoundTransaction[P, T]: ...

    def __get__(self, subject: S | None, owner: type[S]) -> Self | BoundTransaction[P, T]:
        return self if subject is None else BoundTransaction(self, subject)


class BoundTransaction(Generic[P, T]):
    """A transaction of one database: awaited it runs by itself, `within` another as a part of that."""

    __slots__ = ("_subject", "_transaction")

    def __init__(self, transaction: Transaction[Any, P, T], subject: Subject) -> None:
        self._transaction, self._subject = transaction, subject

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs it, and returns its result. Raises `DatabaseUnavailableError`, and what the method raises."""
        method, subject = self._transaction.method, self._subject
        database = subject._database  # noqa: SLF001 (declared above)

        def work(connection: Connection) -> T:
            return method(subject, connection, *args, **kwargs)

        work.__qualname__ = self._transaction.__qualname__  # what a log or a test sees of it
        return await (database.write(work) if self._transaction.writing else database.read(work))

    def within(self, connection: Connection, *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs it within the caller's transaction."""
        return self._transaction.method(self._subject, connection, *args, **kwargs)

    # What `help` and `inspect` show.

    @property
    def __name__(self) -> str:
        return self._transaction.__name__

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        return self._transaction.__doc__

    @property
    def __signature__(self) -> inspect.Signature:
        signature = inspect.signature(self._transaction.method)
        _, _, *others = signature.parameters.values()
        return signature.replace(parameters=others)


async def in_pieces(
    read: Callable[[int], Awaitable[T]], ids: Callable[[T], Sequence[int] | NDArray[np.int64]], *, after: int = -1
) -> AsyncIterator[T]:
    """Yields pieces of a long list, each read by the id that it follows, until one is empty.

    ids: returns those of a piece, ascending, or the last of them alone. Other work can run between two pieces.
    """
    while len(id_list := ids(piece := await read(after))):
        yield piece
        after = int(id_list[-1])
