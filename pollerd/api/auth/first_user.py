"""The first user is made with a code of one use, which the daemon writes to its log."""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable

from pollerd.api.http.settings import digest_of

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
