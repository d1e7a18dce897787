"""Recognises callers by tokens, sessions and proxies, and notices when what recognised them is gone.

What the database knows is read again when it is older than `FRESH_SECONDS`: other processes change it, too. While the
database does not answer, what was known stays in force.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import secrets
import time
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import Response
from starlette.types import Scope as Connection

from pollerd.api.auth.limits import is_among
from pollerd.api.http import By, SignedIn
from pollerd.api.settings import ApiSettings, ApiToken, Scope, digest_of
from pollerd.errors import DatabaseUnavailableError
from pollerd.model import Role
from pollerd.storage.accounts import SESSION_MOST_SECONDS, AccountStore, Existing, Session
from pollerd.storage.store import Store
from pollerd.texts import _

# The tokens in force. They can be replaced while the API runs: calls admitted by an old one then end.

_REVOKED_KEPT = 64


class RevokedError(Exception):
    """The token that admitted a call is no longer in force."""


class Tokens:
    """The tokens in force, and the calls that depend on them."""

    def __init__(self, settings: ApiSettings) -> None:
        self._settings = settings
        self._revoked: deque[bytes] = deque(maxlen=_REVOKED_KEPT)
        self._reading: dict[asyncio.Timeout, Callable[[], bool]] = {}
        """Calls under way -> whether they may go on."""

    @property
    def settings(self) -> ApiSettings:
        """The settings in force."""
        return self._settings

    @property
    def needed(self) -> bool:
        """Whether the settings alone demand that callers say who they are."""
        return self._settings.closed

    def find(self, digest: bytes) -> ApiToken | None:
        """Returns the token with this digest, or None."""
        match = None
        # Every token is compared, each in constant time: the time reveals nothing.
        for token in self._settings.tokens:
            if hmac.compare_digest(token.digest, digest):
                match = token
        return match

    def was_revoked(self, digest: bytes) -> bool:
        """Returns whether this token was revoked recently: its sender is not guessing."""
        return is_among(self._revoked, digest)

    def check(self, settings: ApiSettings) -> None:
        """Raises `InvalidValueError` if the listening address requires a token and there is none."""
        self._beside_address(settings)

    def put_in_force(self, settings: ApiSettings) -> None:
        """Applies all settings but those that need a restart; ends what may not go on. Raises as `check` does."""
        before, self._settings = self._settings, self._beside_address(settings)
        self._revoked.extend(token.digest for token in before.tokens if self.find(token.digest) is None)
        self.review()

    def review(self) -> None:
        """Ends the calls under `while_allowed` that may not go on."""
        for reading, allowed in self._reading.items():
            if not allowed():
                reading.reschedule(0.0)

    def _beside_address(self, settings: ApiSettings) -> ApiSettings:
        before = self._settings
        entrance = replace(before.entrance, allowed_hosts=settings.entrance.allowed_hosts)
        return replace(settings, host=before.host, port=before.port, entrance=entrance)

    @asynccontextmanager
    async def while_allowed(self, allowed: Callable[[], bool]) -> AsyncIterator[None]:
        """Context that ends with `RevokedError` once `review` finds that it is no longer allowed."""
        reading = asyncio.timeout(None)
        try:
            async with reading:
                self._reading[reading] = allowed
                try:
                    yield
                finally:
                    del self._reading[reading]
        except TimeoutError as error:
            if not reading.expired():
                raise
            raise RevokedError from error


FRESH_SECONDS = 2.0
"""Age up to which what was read of the database is used."""
NOTE_SECONDS = 600.0
"""Time after which it is noted again that a session or token is in use."""
_MAX_KNOWN = 1_000
_NOBODY = ("nobody", b"")
_Key = tuple[str, bytes]


class CallerRecognition:
    """Who may call: tokens of the settings, and the accounts of the database."""

    def __init__(self, tokens: Tokens, store: Store | None, clock: Callable[[], float] = time.time) -> None:
        """`store`: None while there is no database yet."""
        self.tokens = tokens
        self._store, self._clock = store, clock
        self._proxy_secret = secrets.token_bytes(32)
        self._existing: tuple[float, Existing] | None = None
        self._known: OrderedDict[_Key, tuple[float, SignedIn]] = OrderedDict()
        """What was read of callers, and when."""
        self._noted: OrderedDict[tuple[str, int], float] = OrderedDict()
        self._held: Counter[_Key] = Counter()
        """Calls under way."""
        self._holders: dict[_Key, SignedIn] = {}
        self._ended: set[_Key] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._reviews: set[asyncio.Task[None]] = set()

    @property
    def accounts(self) -> AccountStore:
        """The accounts of the database."""
        if self._store is None:
            raise DatabaseUnavailableError(_("the database is not there yet"))
        return self._store.accounts

    async def needed(self) -> bool:
        """Returns whether callers must say who they are.

        Raises `DatabaseUnavailableError` if that was never known.
        """
        if self.tokens.needed or self._store is None:
            return self.tokens.needed
        existing = await self.existing()
        return existing.users or existing.tokens

    async def existing(self) -> Existing:
        """Returns whether there are users and tokens in the database; raises as `needed`."""
        if self._existing is None or not self._is_fresh(self._existing[0]):
            try:
                self._existing = (self._clock(), await self.accounts.existing())
            except DatabaseUnavailableError:
                if self._existing is None:
                    raise
        return self._existing[1]

    # Who is it?

    async def by_token(self, digest: bytes) -> SignedIn | None:
        """Returns the caller with this token, a SHA-256; None: it is unknown."""
        set_one = self._of_settings(digest)
        if set_one is not None or self._store is None:
            return set_one
        return await self._fresh(("token", digest), lambda: self._stored_token(digest))

    async def by_session(self, secret: str) -> SignedIn | None:
        """Returns the caller with this session; None: it is over, or was never."""
        if self._store is None:
            return None
        digest = digest_of(secret)
        signed_in = await self._fresh(("session", digest), lambda: self._stored_session(digest))
        return None if signed_in is None else replace(signed_in, secret=secret.encode())

    async def by_proxy(self, name: str) -> SignedIn | None:
        """Returns the user whom a trusted proxy names; None: there is no such user."""
        if self._store is None:
            return None
        key = name.encode("utf-8", "replace")
        signed_in = await self._fresh(("user", key), lambda: self._stored_user(name))
        return None if signed_in is None else replace(signed_in, secret=self._proxy_secret + key)

    def _of_settings(self, digest: bytes) -> SignedIn | None:
        token = self.tokens.find(digest)
        if token is None:
            return None
        role = Role.WRITE if Scope.WRITE in token.scopes else Role.READ
        return SignedIn(by=By.TOKEN, name=token.name, role=role, token_digest=digest, of_settings=True)

    async def _stored_token(self, digest: bytes) -> SignedIn | None:
        token = await self.accounts.token(digest)
        if token is None:
            return None
        await self._note(("token", token.id), token.used_at, self.accounts.note_used)
        return SignedIn(by=By.TOKEN, name=token.name, role=token.role, token_digest=digest)

    async def _stored_session(self, digest: bytes) -> SignedIn | None:
        session = await self.accounts.session(digest, self._clock())
        return None if session is None else await self.holder_of(session)

    async def holder_of(self, session: Session) -> SignedIn | None:
        """Returns who has a session, without its secret; None: its token is no longer in force."""
        if session.user is not None:
            holder = SignedIn(by=By.SESSION, name=session.user.name, role=session.user.role, user_id=session.user.id)
        else:
            digest = session.token_digest or b""
            by_token = self._of_settings(digest) or await self._stored_token(digest)
            if by_token is None:
                return None
            holder = replace(by_token, by=By.SESSION)
        return replace(holder, session_id=session.id, seen_at=session.seen_at, expires_at=session.expires_at)

    async def _stored_user(self, name: str) -> SignedIn | None:
        account = await self.accounts.user(name)
        if account is None:
            return None
        return SignedIn(by=By.PROXY, name=account.user.name, role=account.user.role, user_id=account.user.id)

    async def _fresh(self, key: _Key, read: Callable[[], Awaitable[SignedIn | None]]) -> SignedIn | None:
        """Returns what is known under the key, read again if it is not fresh."""
        at, known = self._known.get(key, (0.0, None))
        if known is not None and self._is_fresh(at) and not self._is_over(known):
            return known
        try:
            signed_in = await read()
        except DatabaseUnavailableError:
            if known is None or self._is_over(known):
                raise
            return known
        if signed_in is None:
            self._known.pop(key, None)
            return None
        self._known[key] = (self._clock(), signed_in)
        self._known.move_to_end(key)
        if len(self._known) > _MAX_KNOWN:
            self._known.popitem(last=False)
        return signed_in

    def _is_fresh(self, at: float) -> bool:
        return 0.0 <= self._clock() - at < FRESH_SECONDS

    def _is_over(self, known: SignedIn) -> bool:
        return known.expires_at is not None and known.expires_at <= self._clock()

    async def seen(self, caller: SignedIn) -> None:
        """Notes that a session is used, which prolongs it; at most once in `NOTE_SECONDS`."""
        if caller.session_id is not None:
            await self._note(("session", caller.session_id), caller.seen_at, self.accounts.note_seen)

    async def _note(
        self, key: tuple[str, int], noted: float | None, note: Callable[[int, float], Awaitable[None]]
    ) -> None:
        now = self._clock()
        if now - max(self._noted.get(key, 0.0), noted or 0.0) < NOTE_SECONDS:
            return
        self._noted[key] = now
        if len(self._noted) > _MAX_KNOWN:
            self._noted.popitem(last=False)
        try:
            await note(key[1], now)
        except DatabaseUnavailableError:
            return  # it is noted the next time

    # Is it still so?

    def may_go_on(self, caller: SignedIn | None) -> bool:
        """Returns whether a call of this caller, or one that needed none, may go on, as far as is known now."""
        if caller is None:
            exist = self._existing is not None and (self._existing[1].users or self._existing[1].tokens)
            return not (self.tokens.needed or exist)
        if caller.of_settings and self.tokens.find(caller.token_digest or b"") is None:
            return False
        return _key_of(caller) not in self._ended and not self._is_over(caller)

    @asynccontextmanager
    async def while_in_force(self, caller: SignedIn | None) -> AsyncIterator[None]:
        """Context that ends with `RevokedError` when what admitted a call is gone, within `FRESH_SECONDS`."""
        with self.held(caller):
            async with self.tokens.while_allowed(lambda: self.may_go_on(caller)):
                yield

    @contextmanager
    def held(self, caller: SignedIn | None) -> Iterator[None]:
        """Context in which `may_go_on` is kept up to date for this caller."""
        key = _NOBODY if caller is None else _key_of(caller)
        if not self._held:
            self._begin_timer()
        self._held[key] += 1
        if caller is not None:
            self._holders[key] = caller
        try:
            yield
        finally:
            self._held[key] -= 1
            if not self._held[key]:
                del self._held[key]
                self._holders.pop(key, None)
                self._ended.discard(key)
            if not self._held and self._timer is not None:
                self._timer.cancel()

    async def review(self) -> None:
        """Reads again what admitted the calls under way, and ends those that may not go on.

        To be called when accounts were changed here; changes elsewhere are noticed within `FRESH_SECONDS`.
        """
        self._known.clear()
        self._existing = None if self._existing is None else (0.0, self._existing[1])
        try:
            if _NOBODY in self._held and self._store is not None:
                await self.existing()
            for key, caller in list(self._holders.items()):
                if await self._again(caller) is None and key in self._held:
                    self._ended.add(key)
        except DatabaseUnavailableError:
            pass  # what was known stays in force; the next review finds out
        self.tokens.review()

    async def _again(self, caller: SignedIn) -> SignedIn | None:
        if caller.by is By.SESSION:
            return await self.by_session(caller.secret.decode())
        if caller.by is By.PROXY:
            return await self.by_proxy(caller.name)
        return await self.by_token(caller.token_digest or b"")

    def _begin_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(FRESH_SECONDS, self._review_later)

    def _review_later(self) -> None:
        task = asyncio.create_task(self.review(), name="recognition")
        self._reviews.add(task)
        task.add_done_callback(self._reviews.discard)
        if self._held:
            self._begin_timer()


def _key_of(caller: SignedIn) -> _Key:
    if caller.by is By.SESSION:
        return "session", digest_of(caller.secret.decode())
    if caller.by is By.PROXY:
        return "user", caller.name.encode()
    return "token", caller.token_digest or b""


# The cookie of a session: what a browser sends by itself, and no script reads.

_SECURE = "__Host-pollerd"
_PLAIN = "pollerd"
_PORT = re.compile(r":([0-9]{1,5})$")


def cookie_name(connection: Connection) -> str:
    """Returns the cookie's name: under TLS one that other hosts and unencrypted connections cannot set.

    It has the port of the address that the browser shows, if that has one: browsers send a cookie to all ports of a
    host, and daemons on two of them would overwrite each other's. Nodes behind one address have one name.
    """
    port = _PORT.search(Headers(scope=connection).get("host", ""))
    return _without_port(connection) + (f"-{port[1]}" if port else "")


def secret_in(connection: Connection, headers: Headers) -> str | None:
    """Returns the session's secret that a call sends; None: it sends none.

    A cookie without port counts where there is none with it: a proxy may name the port in some of its requests only.
    """
    sent = [cookie_parser(line) for line in headers.getlist("cookie")]
    for name in (cookie_name(connection), _without_port(connection)):
        for cookies in sent:
            if cookies.get(name):
                return cookies[name]
    return None


def _without_port(connection: Connection) -> str:
    return _SECURE if _is_secure(connection) else _PLAIN


def set_cookie(response: Response, connection: Connection, secret: str) -> None:
    """Has the browser keep the session."""
    response.set_cookie(
        cookie_name(connection),
        secret,
        max_age=int(SESSION_MOST_SECONDS),
        path="/",
        secure=_is_secure(connection),
        httponly=True,
        samesite="strict",
    )


def clear_cookie(response: Response, connection: Connection) -> None:
    """Has the browser forget the session."""
    secure = _is_secure(connection)
    response.delete_cookie(cookie_name(connection), path="/", secure=secure, httponly=True, samesite="strict")


def _is_secure(connection: Connection) -> bool:
    return bool(connection.get("scheme") == "https")
