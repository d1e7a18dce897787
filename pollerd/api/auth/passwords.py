"""Hashes passwords and compares them: in a thread, one at a time, since each takes 64 MiB and a core for a while."""

from __future__ import annotations

import asyncio
import threading
import unicodedata
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from pollerd.api.auth.password_rules import check_password

if TYPE_CHECKING:
    from argon2 import PasswordHasher

PASSES, MEMORY_KIB = 3, 64 * 1024
"""Cost of argon2id, as RFC 9106 recommends it where memory is scarce, but on one core."""
MOST_WAITING = 8
"""Passwords that wait while another is hashed; further ones are refused."""

T = TypeVar("T")


class BusyError(Exception):
    """Too many passwords are waiting to be compared."""


@dataclass(frozen=True, slots=True)
class Compared:
    """What a comparison found."""

    right: bool
    better: str | None = None
    """A new hash of the same password, if the stored one was made with other parameters."""


class Passwords:
    """Hashes and compares passwords off the event loop."""

    def __init__(self) -> None:
        self._places = threading.BoundedSemaphore(1 + MOST_WAITING)
        self._executor: ThreadPoolExecutor | None = None

    async def hash(self, password: str) -> str:
        """Returns the hash to store. Raises `InvalidValueError` for an unsuitable password, and `BusyError`."""
        check_password(password)
        return await self._off_loop(lambda: hash_now(password))

    async def compare(self, password: str, stored: str | None) -> Compared:
        """Compares a password with a stored hash; with None, there is none, it takes as long. Raises `BusyError`."""
        return await self._off_loop(lambda: _compare(password, stored))

    async def _off_loop(self, work: Callable[[], T]) -> T:
        if not self._places.acquire(blocking=False):
            raise BusyError
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="password")
        future: Future[T] = self._executor.submit(work)
        future.add_done_callback(lambda _: self._places.release())
        return await asyncio.wrap_future(future)


def hash_now(password: str) -> str:
    """Returns the hash of a password; takes a fifth of a second."""
    return _hasher().hash(_encoded(password))


def _compare(password: str, stored: str | None) -> Compared:
    from argon2.exceptions import InvalidHashError, VerificationError

    hasher = _hasher()
    try:
        hasher.verify(stored or _unknown(), _encoded(password))
    except (VerificationError, InvalidHashError):
        return Compared(False)
    if stored is None:
        return Compared(False)
    better = hash_now(password) if hasher.check_needs_rehash(stored) else None
    return Compared(True, better)


def _hasher() -> PasswordHasher:
    from argon2 import PasswordHasher  # what a daemon without users does not need

    return PasswordHasher(time_cost=PASSES, memory_cost=MEMORY_KIB, parallelism=1)


def _unknown() -> str:
    """Returns a hash that no password has, made with the parameters in use: 16 bytes of salt, 32 of hash, all zero."""
    hasher = _hasher()
    cost = f"m={hasher.memory_cost},t={hasher.time_cost},p={hasher.parallelism}"
    return f"$argon2id$v=19${cost}${'A' * 22}${'A' * 43}"


def _encoded(password: str) -> bytes:
    # Keyboards differ in how they compose a letter.
    return unicodedata.normalize("NFC", password).encode("utf-8", "surrogatepass")
