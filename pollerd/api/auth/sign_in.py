"""Signing in: with name and password, with a token, or as the first user. Used by REST and by the pages."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import threading
import time
import unicodedata
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import structlog

from pollerd.api.auth.limits import SignInLimits
from pollerd.api.auth.recognition import CallerRecognition
from pollerd.api.http import SignedIn
from pollerd.api.settings import digest_of
from pollerd.errors import InvalidValueError
from pollerd.storage.accounts import NewSession, Session, check_name
from pollerd.texts import N_, _

if TYPE_CHECKING:
    from argon2 import PasswordHasher


# The first user is made with a code of one use, which the daemon writes to its log.

VALID_SECONDS = 3600.0
PATH = "/first-user"
"""Page to which the link leads; the code is its fragment, which browsers send to nobody."""
_BYTES = 32


class FirstUserCode:
    """The code, if one was made, for as long as it is valid."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._digest: bytes | None = None
        self._until = 0.0

    @property
    def is_valid(self) -> bool:
        """Whether there is a code that can be used."""
        return self._digest is not None and self._clock() < self._until

    def make(self) -> str:
        """Returns a new code, valid for `VALID_SECONDS`; one that was made before no longer is."""
        code = secrets.token_urlsafe(_BYTES)
        self._digest, self._until = digest_of(code), self._clock() + VALID_SECONDS
        return code

    def matches(self, code: str) -> bool:
        """Returns whether this is the code, and it is valid."""
        return self.is_valid and hmac.compare_digest(self._digest or b"", digest_of(code))

    def use_up(self) -> None:
        """Makes the code invalid."""
        self._digest = None


def link(root: str, code: str) -> str:
    """Returns the address to open in a browser; `root`: of the daemon, without a slash at its end."""
    return f"{root}{PATH}#{code}"


# What a password must be like.

SHORTEST, LONGEST = 10, 256
"""Characters of a password."""


def check_password(password: str, field: str = "password") -> str:
    """Returns the password. Raises `InvalidValueError` if it is too short, too long, or one character repeated."""
    if not SHORTEST <= len(password) <= LONGEST or len(set(password)) == 1:
        raise InvalidValueError(
            field,
            _("{shortest} to {longest} characters, not all the same", shortest=SHORTEST, longest=LONGEST),
            "(not shown)",
        )
    return password


# Hashes passwords and compares them: in a thread, one at a time, since each takes 64 MiB and a core for a while.

PASSES, MEMORY_KIB = 3, 64 * 1024
"""Cost of argon2id, as RFC 9106 recommends it where memory is scarce, but on one core."""
MAX_WAITING = 8
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
        self._places = threading.BoundedSemaphore(1 + MAX_WAITING)
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
        future.add_done_callback(lambda _future: self._places.release())
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


FAILED = N_("That did not work. Check name and password.")
"""The one message for all failures."""
_BUSY_SECONDS = 1.0


class SignInError(Exception):
    """Nobody was signed in. `wait`: seconds until the next attempt, if there were too many; 0: it was wrong."""

    def __init__(self, wait: float = 0.0) -> None:
        super().__init__(_(FAILED) if wait <= 0 else _("too many attempts"))
        self.wait = wait


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody who signs in."""

    address: str
    """As counted by the limits."""
    agent: str = ""
    """The browser, as it names itself."""


@dataclass(frozen=True, slots=True)
class BegunSession:
    """A session that begins."""

    secret: str
    """What the cookie holds."""
    session: Session
    caller: SignedIn


class SignIn:
    """Begins sessions."""

    def __init__(
        self,
        recognition: CallerRecognition,
        passwords: Passwords,
        first_user: FirstUserCode,
        *,
        limits: SignInLimits | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._recognition, self._passwords, self._first_user = recognition, passwords, first_user
        self._limits, self._clock = limits or SignInLimits(), clock
        self._log = structlog.get_logger("pollerd.api")

    async def with_password(self, name: str, password: str, visitor: Visitor) -> BegunSession:
        """Begins a session of a user. Raises `SignInError`."""
        return await self._begin(visitor, user_id=await self._user_with(name, password, visitor))

    async def with_token(self, token: str, visitor: Visitor) -> BegunSession:
        """Begins a session of whoever has a token. Raises `SignInError`."""
        digest = digest_of(token)
        self._attempt(visitor, None)
        holder = await self._recognition.by_token(digest)
        if holder is None or not holder.may_read:
            raise self._wrong(visitor)
        self._limits.right(visitor.address, None)
        return await self._begin(visitor, token_digest=digest)

    async def as_first_user(self, code: str, name: str, password: str, visitor: Visitor) -> BegunSession:
        """Makes the first user, with the code of the log, and begins a session.

        Raises `SignInError` for a wrong code, `InvalidValueError` for an unsuitable name or password, and
        `DuplicateError` if there is a user already.
        """
        self._attempt(visitor, None)
        if not self._first_user.matches(code):
            raise self._wrong(visitor)
        self._limits.right(visitor.address, None)
        name = check_name(name)
        try:
            hashed = await self._passwords.hash(check_password(password))
        except BusyError:
            raise SignInError(_BUSY_SECONDS) from None
        user = await self._recognition.accounts.add_first_user(name, hashed, self._clock())
        self._first_user.use_up()
        self._log.info("first_user_made", user=user.name)
        begun = await self._begin(visitor, user_id=user.id)
        await self._recognition.review()
        return begun

    async def confirm(self, caller: SignedIn, password: str, visitor: Visitor) -> None:
        """Checks the password of a user who is signed in. Raises `SignInError`."""
        await self._user_with(caller.name, password, visitor)

    async def change_password(self, caller: SignedIn, password: str, new: str, visitor: Visitor) -> None:
        """Gives a user who is signed in another password; all of the user's sessions end.

        Raises `InvalidValueError` for an unsuitable new password, and `SignInError` if `password` is not the present
        one.
        """
        check_password(new, "new_password")
        await self.confirm(caller, password, visitor)
        try:
            hashed = await self._passwords.hash(new)
        except BusyError:
            raise SignInError(_BUSY_SECONDS) from None
        await self._recognition.accounts.change_user(caller.name, password_hash=hashed)
        self._log.info("password_changed", user=caller.name)
        await self._recognition.review()

    async def _user_with(self, name: str, password: str, visitor: Visitor) -> int:
        """Returns the id of the user with this password. Raises `SignInError`."""
        self._attempt(visitor, name)
        account = await self._recognition.accounts.user(name)
        try:
            compared = await self._passwords.compare(password, None if account is None else account.hash)
        except BusyError:
            self._limits.take_back(visitor.address, name)
            raise SignInError(_BUSY_SECONDS) from None
        if account is None or not compared.right:
            raise self._wrong(visitor)
        self._limits.right(visitor.address, name)
        if compared.better is not None and account.hash is not None:
            await self._recognition.accounts.rehash(account.user.id, account.hash, compared.better)
        return account.user.id

    def _attempt(self, visitor: Visitor, name: str | None) -> None:
        """Counts an attempt, before it is known how it ends. Raises `SignInError` if there were too many."""
        wait = self._limits.wait(visitor.address, name)
        if wait > 0:
            raise SignInError(wait)
        self._limits.begin(visitor.address, name)

    def _wrong(self, visitor: Visitor) -> SignInError:
        if self._limits.wait(visitor.address, None) > 0:
            self._log.warning("wrong_sign_ins", address=visitor.address, effect="its next attempts are delayed")
        return SignInError()

    async def _begin(
        self, visitor: Visitor, *, user_id: int | None = None, token_digest: bytes | None = None
    ) -> BegunSession:
        secret = secrets.token_urlsafe(_BYTES)
        new = NewSession(
            digest=digest_of(secret),
            user_id=user_id,
            token_digest=token_digest,
            agent=visitor.agent,
            address=visitor.address,
        )
        session = await self._recognition.accounts.begin_session(new, self._clock())
        caller = await self._recognition.by_session(secret)
        if caller is None:  # it was ended in the meantime
            raise SignInError
        return BegunSession(secret, session, caller)
