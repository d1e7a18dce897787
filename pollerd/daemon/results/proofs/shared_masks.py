"""Masks learned lately, by host: pages of one host have the same noise."""

from __future__ import annotations

from collections import deque

_KEPT = 8


class SharedMasks:
    """The masks learned last, each with its host slot."""

    def __init__(self) -> None:
        self._learned: deque[tuple[int, bytes]] = deque(maxlen=_KEPT)

    def share(self, host: int, mask: bytes) -> None:
        """Offers a mask to the other pages of its host."""
        if (host, mask) not in self._learned:
            self._learned.append((host, mask))

    def withdraw(self, host: int, mask: bytes) -> None:
        """Offers the mask no longer: a page of the host gave up rules of it."""
        if (host, mask) in self._learned:
            self._learned.remove((host, mask))

    def of(self, host: int) -> tuple[bytes, ...]:
        """Returns the masks of the host."""
        return tuple(mask for learned_at, mask in self._learned if learned_at == host)
