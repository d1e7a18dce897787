"""Recognises callers by tokens, sessions and proxies, and notices when what recognised them is gone.

What the database knows is read again when it is older than `FRESH_SECONDS`: other processes change it, too. While the
database does not answer, what was known stays in force.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace

from pollerd.api.auth.tokens import Tokens
from pollerd.api.http.caller import By, SignedIn
from pollerd.api.http.settings import Scope, digest_of
from pollerd.errors import DatabaseUnavailableError
from pollerd.storage import AccountStore, Existing, Role, Session, Store

FRESH_SECONDS = 2.0
"""Age up to which what was read of the database is used."""
NOTE_SECONDS = 600.0
"""Time after which it is noted again that a session or token is in use."""
_MOST_KNOWN = 1_000
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
            raise DatabaseUnavailableError("the database is not there yet")
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
        found = await self._fresh(("session", digest), lambda: self._stored_session(digest))
        return None if found is None else replace(found, secret=secret.encode())

    async def by_proxy(self, name: str) -> SignedIn | None:
        """Returns the user whom a trusted proxy names; None: there is no such user."""
        if self._store is None:
            return None
        key = name.encode("utf-8", "replace")
        found = await self._fresh(("user", key), lambda: self._stored_user(name))
        return None if found is None else replace(found, secret=self._proxy_secret + key)

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
        found = await self.accounts.user(name)
        if found is None:
            return None
        return SignedIn(by=By.PROXY, name=found.user.name, role=found.user.role, user_id=found.user.id)

    async def _fresh(self, key: _Key, read: Callable[[], Awaitable[SignedIn | None]]) -> SignedIn | None:
        """Returns what is known under the key, read again if it is not fresh."""
        at, known = self._known.get(key, (0.0, None))
        if known is not None and self._is_fresh(at) and not self._is_over(known):
            return known
        try:
            found = await read()
        except DatabaseUnavailableError:
            if known is None or self._is_over(known):
                raise
            return known
        if found is None:
            self._known.pop(key, None)
            return None
        self._known[key] = (self._clock(), found)
        self._known.move_to_end(key)
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)
        return found

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
        if len(self._noted) > _MOST_KNOWN:
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
