"""How fast a channel may be sent to: messages a minute, and when single ones give way to groups. Pure."""

from __future__ import annotations

import math
from collections import deque

WINDOW_SECONDS = 60.0
"""In a storm, one group is sent in this time."""


class Pace:
    """The recent messages of one channel, or those of one sort. After a start they are read from the delivery log."""

    def __init__(self, *, group_from: int, per_minute: int) -> None:
        """`group_from`: events in a minute from which they are sent together; `per_minute`: messages at most."""
        self._group_from, self._per_minute = group_from, per_minute
        self._events: deque[float] = deque()
        self._messages: deque[float] = deque()
        self._group_at = -math.inf
        self._left_over = 0

    def share(self) -> Pace:
        """Returns the pace of messages that leave at least half of those of a minute to others, where there are two."""
        return Pace(group_from=self._group_from, per_minute=max(self._per_minute // 2, 1))

    def limit_at(self, now: float) -> float:
        """Returns when there is room for a message within those of a minute (epoch s), `now` if at once."""
        self._forget(now)
        if len(self._messages) < self._per_minute:
            return now
        return self._messages[len(self._messages) - self._per_minute] + WINDOW_SECONDS

    def free_at(self, now: float) -> float:
        """Returns when the next message may be begun (epoch s), `now` if at once.

        What one message did not hold of its list goes on in a storm, whatever becomes of that message.
        """
        at = self.limit_at(now)
        if self.in_storm(now) and not self._left_over:
            at = max(at, self._since() + WINDOW_SECONDS)
        return at

    def in_storm(self, now: float) -> bool:
        """Whether so many events were sent in the last minute that the next ones are sent together."""
        self._forget(now)
        return len(self._events) >= self._group_from

    def least_group(self, now: float) -> int:
        """Returns the number of waiting notices from which they become one message."""
        return 2 if self.in_storm(now) or len(self._messages) >= self._per_minute - 1 else self._group_from

    def begin(self, events: int, held: int) -> None:
        """Notes that so many events of a list were to go as one message, which holds only the first `held` of them."""
        self._left_over = max(self._left_over - events, 0) + events - held

    def note_sent(self, now: float, events: int) -> None:
        """Notes a message of so many events; 0: they are of another sort, and only the message counts."""
        self._forget(now)
        self._messages.append(now)
        self._events.extend([now] * min(events, self._group_from))
        if events > 1:
            self._group_at = now

    def _since(self) -> float:
        """Returns when the present storm's minute began: with its last group, or its first single message."""
        return max(self._group_at, self._events[0])

    def _forget(self, now: float) -> None:
        for times in (self._events, self._messages):
            while times and not now - WINDOW_SECONDS < times[0] <= now:  # the clock may have been set back
                times.popleft()
