"""Signing in: with name and password, with a token, or as the first user. Used by REST and by the pages."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from pollerd.api.auth.first_user import FirstUserCode
from pollerd.api.auth.password_rules import check_password
from pollerd.api.auth.passwords import BusyError, Passwords
from pollerd.api.auth.recognition import CallerRecognition
from pollerd.api.auth.sign_in_limits import SignInLimits
from pollerd.api.http.caller import SignedIn
from pollerd.api.http.settings import digest_of
from pollerd.storage import NewSession, Session, check_name

FAILED = "That did not work. Check name and password."
"""The one message for all failures."""
_BYTES = 32
_BUSY_SECONDS = 1.0


class SignInError(Exception):
    """Nobody was signed in. `wait`: seconds until the next attempt, if there were too many; 0: it was wrong."""

    def __init__(self, wait: float = 0.0) -> None:
        super().__init__(FAILED if wait <= 0 else "too many tries")
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
        found = await self._recognition.by_token(digest)
        if found is None or not found.may_read:
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
        found = await self._recognition.accounts.user(name)
        try:
            compared = await self._passwords.compare(password, None if found is None else found.hash)
        except BusyError:
            self._limits.take_back(visitor.address, name)
            raise SignInError(_BUSY_SECONDS) from None
        if found is None or not compared.right:
            raise self._wrong(visitor)
        self._limits.right(visitor.address, name)
        if compared.better is not None and found.hash is not None:
            await self._recognition.accounts.rehash(found.user.id, found.hash, compared.better)
        return found.user.id

    def _attempt(self, visitor: Visitor, name: str | None) -> None:
        """Counts an attempt, before it is known how it ends. Raises `SignInError` if there were too many."""
        wait = self._limits.wait(visitor.address, name)
        if wait > 0:
            raise SignInError(wait)
        self._limits.begin(visitor.address, name)

    def _wrong(self, visitor: Visitor) -> SignInError:
        if self._limits.wait(visitor.address, None) > 0:
            self._log.warning("wrong_sign_ins", address=visitor.address, instead="its next ones have to wait")
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
