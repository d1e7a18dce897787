"""The polls as they are committed, for who watches them; without watchers nothing is kept."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pollerd.daemon.state.views import NodeStatus
from pollerd.model import Poll
from pollerd.storage import PollRecord

_KEPT = 1_000


@dataclass(frozen=True, slots=True)
class WatchedPolls:
    """What came since a position."""

    position: int
    """To continue from."""
    polls: Sequence[tuple[Poll, str]]
    """The newest of them, oldest first, each with its site's URL."""
    skipped: int
    """How many older ones were left out."""


class PollFeed:
    """Hands on committed polls."""

    def __init__(self) -> None:
        self._polls: deque[tuple[Poll, str]] = deque(maxlen=_KEPT)
        self._position = 0
        self._watchers = 0

    @property
    def position(self) -> int:
        """Number of polls so far, while somebody watched."""
        return self._position

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Keeps polls while the block runs."""
        self._watchers += 1
        try:
            yield
        finally:
            self._watchers -= 1
            if not self._watchers:
                self._polls.clear()

    def note(self, records: Sequence[PollRecord]) -> None:
        """Takes the polls of a commit."""
        if self._watchers:
            self._polls.extend((record.poll, record.context.url) for record in records)
            self._position += len(records)

    def add(self, polls: Sequence[tuple[Poll, str]], skipped: int) -> None:
        """Takes polls, each with its site's URL, of which `skipped` older ones were left out."""
        if self._watchers:
            self._polls.extend(polls)
            self._position += len(polls) + skipped

    def others(self) -> Sequence[NodeStatus]:
        """Returns how other nodes are whose polls are here, too: none."""
        return ()

    def since(self, position: int, most: int) -> WatchedPolls:
        """Returns the newest polls after a position, at most `most`."""
        came = self._position - position
        if came <= 0:
            return WatchedPolls(self._position, (), 0)
        shown = min(came, most, len(self._polls))
        newest = [self._polls[n] for n in range(len(self._polls) - shown, len(self._polls))]
        return WatchedPolls(self._position, newest, came - shown)
