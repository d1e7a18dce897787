"""Queues of hosts: redirected requests that wait for a host, and the polls of its own sites between them."""

from __future__ import annotations

POLLS_TURN_SECONDS = 2.0
"""How long a host that could be requested is kept for the polls at the head of its queue, s: they are chosen every
0.1 s, up to a second ahead of when the budget lets them start."""


class HostLines:
    """By host slot, who waits for it, first come first served; most hosts have no queue.

    All polls of a host's own sites hold one place, and only behind others: without others they need none. Without a
    place they would wait for ever at a host to which redirects lead faster than it may be requested.
    """

    __slots__ = ("_kept_until", "_lines")

    _POLLS = object()

    def __init__(self) -> None:
        self._lines: dict[int, list[object]] = {}
        self._kept_until: dict[int, float] = {}

    def __bool__(self) -> bool:
        """Whether any host has a queue."""
        return bool(self._lines)

    def slots(self) -> list[int]:
        """Slots of the hosts with a queue."""
        return list(self._lines)

    def join(self, slot: int, waiter: object) -> None:
        """Adds the waiter to the queue of the host."""
        self._lines.setdefault(slot, []).append(waiter)

    def join_polls(self, slot: int) -> None:
        """Gives the polls of the host a place in its queue, if it has a queue in which they have none."""
        line = self._lines.get(slot)
        if line is not None and self._POLLS not in line:
            line.append(self._POLLS)

    def leave(self, slot: int, waiter: object) -> None:
        """Removes the waiter from the queue of the host; polls alone need no queue."""
        line = self._lines[slot]
        line.remove(waiter)
        if not line or line == [self._POLLS]:
            del self._lines[slot]
            self._kept_until.pop(slot, None)

    def end_polls_turn(self, slot: int) -> None:
        """Ends the turn of the host's polls, if it is theirs: one started, or none was chosen."""
        line = self._lines.get(slot)
        if line is not None and line[0] is self._POLLS:
            line.pop(0)
            self._kept_until.pop(slot, None)

    def is_polls_turn(self, slot: int) -> bool:
        """Returns whether a poll may start as far as the queue is concerned: it is at the head, or there is none."""
        line = self._lines.get(slot)
        return line is None or line[0] is self._POLLS

    def is_turn_of(self, slot: int, waiter: object, now: float) -> bool:
        """Returns whether the waiter is the next, given that the host may be requested now (epoch s).

        Ends a turn of the polls that they did not use in time: the sites may have been paused.
        """
        line = self._lines[slot]
        if line[0] is self._POLLS and now > self._kept_until.setdefault(slot, now + POLLS_TURN_SECONDS):
            self.end_polls_turn(slot)
        return line[0] is waiter
