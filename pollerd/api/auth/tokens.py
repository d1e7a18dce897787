"""The tokens in force. They can be replaced while the API runs: calls admitted by an old one then end."""

from __future__ import annotations

import asyncio
import hmac
from collections import deque
from collections.abc import AsyncIterator
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
        self._reading: dict[asyncio.Timeout, ApiToken | None] = {}

    @property
    def settings(self) -> ApiSettings:
        """The settings in force."""
        return self._settings

    @property
    def needed(self) -> bool:
        """Whether calls need a token."""
        return bool(self._settings.tokens)

    def find(self, digest: bytes) -> ApiToken | None:
        """Returns the token with this digest, or None."""
        found = None
        # Every token is compared, each in constant time: the time reveals nothing.
        for token in self._settings.tokens:
            if hmac.compare_digest(token.digest, digest):
                found = token
        return found

    def in_force(self, token: ApiToken | None) -> bool:
        """Returns whether calls admitted by the token may continue; None: admitted when no token was needed."""
        return not self.needed if token is None else self.find(token.digest) is not None

    def was_revoked(self, digest: bytes) -> bool:
        """Returns whether this token was revoked recently: its sender is not guessing."""
        return is_among(self._revoked, digest)

    def check(self, settings: ApiSettings) -> None:
        """Raises `InvalidValueError` if the listening address requires a token and there is none."""
        self._beside_address(settings)

    def put_in_force(self, settings: ApiSettings) -> None:
        """Applies all settings but the address; ends reading calls under removed tokens. Raises as `check` does."""
        before, self._settings = self._settings, self._beside_address(settings)
        self._revoked.extend(token.digest for token in before.tokens if self.find(token.digest) is None)
        for reading, token in self._reading.items():
            if not self.in_force(token):
                reading.reschedule(0.0)

    def _beside_address(self, settings: ApiSettings) -> ApiSettings:
        return replace(settings, host=self._settings.host, port=self._settings.port)

    @asynccontextmanager
    async def while_in_force(self, token: ApiToken | None) -> AsyncIterator[None]:
        """Context that ends with `RevokedError` as soon as the token is no longer in force."""
        reading = asyncio.timeout(None)
        try:
            async with reading:
                self._reading[reading] = token
                try:
                    yield
                finally:
                    del self._reading[reading]
        except TimeoutError as error:
            if not reading.expired():
                raise
            raise RevokedError from error
