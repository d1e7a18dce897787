"""The tokens in force. They can be replaced while the API runs: calls admitted by an old one then end."""

from __future__ import annotations

import asyncio
import hmac
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from pollerd.api.auth.wrong_tokens import is_among
from pollerd.api.http.settings import ApiSettings, ApiToken

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
        found = None
        # Every token is compared, each in constant time: the time reveals nothing.
        for token in self._settings.tokens:
            if hmac.compare_digest(token.digest, digest):
                found = token
        return found

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
