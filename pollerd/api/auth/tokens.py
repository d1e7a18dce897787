"""The tokens in force. Others may take their place while the API runs: what was let in by an old one ends then."""

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
    """The token that let a call in is no longer in force."""


class Tokens:
    """Who may call, now."""

    def __init__(self, settings: ApiSettings) -> None:
        self._settings = settings
        self._revoked: deque[bytes] = deque(maxlen=_REVOKED_KEPT)
        self._reading: dict[asyncio.Timeout, ApiToken | None] = {}

    @property
    def settings(self) -> ApiSettings:
        """What is in force."""
        return self._settings

    @property
    def needed(self) -> bool:
        """Whether calls need a token at all."""
        return bool(self._settings.tokens)

    def find(self, digest: bytes) -> ApiToken | None:
        """The token with this digest."""
        found = None
        # Every token is compared, and each in constant time: the time taken tells nothing.
        for token in self._settings.tokens:
            if hmac.compare_digest(token.digest, digest):
                found = token
        return found

    def in_force(self, token: ApiToken | None) -> bool:
        """Whether what the token let in may go on; None: it was let in when no token was needed."""
        return not self.needed if token is None else self.find(token.digest) is not None

    def was_revoked(self, digest: bytes) -> bool:
        """Whether this was a token until lately: who sends it does not guess."""
        return is_among(self._revoked, digest)

    def check(self, settings: ApiSettings) -> None:
        """Raises `InvalidValueError` where the address that is listened on does not allow to do without a token."""
        self._beside_address(settings)

    def put_in_force(self, settings: ApiSettings) -> None:
        """All but the address follows; calls that read under a token that is gone end. Raises as `check` does."""
        before, self._settings = self._settings, self._beside_address(settings)
        self._revoked.extend(token.digest for token in before.tokens if self.find(token.digest) is None)
        for reading, token in self._reading.items():
            if not self.in_force(token):
                reading.reschedule(0.0)

    def _beside_address(self, settings: ApiSettings) -> ApiSettings:
        return replace(settings, host=self._settings.host, port=self._settings.port)

    @asynccontextmanager
    async def while_in_force(self, token: ApiToken | None) -> AsyncIterator[None]:
        """A block that ends, with `RevokedError`, as soon as the token is out of force."""
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
