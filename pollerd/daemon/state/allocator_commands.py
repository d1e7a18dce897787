"""Commands that change an allocator, for those that follow the active one."""

from __future__ import annotations

from collections.abc import Callable

from pollerd.allocation import Allocator

AllocatorCommand = Callable[[Allocator], None]
"""Changes an allocator: sites come or go, evidence is observed, the budget is another."""


class CommandQueue:
    """The commands that one follower has not carried out yet, oldest first.

    Holds at most `most` of them. One more overflows it: then it drops all and takes no more.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._commands: list[AllocatorCommand] = []
        self.overflowed = False
        """Whether the follower fell too far behind; it has missed commands."""

    def __len__(self) -> int:
        """How many commands wait."""
        return len(self._commands)

    def put(self, command: AllocatorCommand) -> None:
        """Appends a command."""
        if self.overflowed:
            return
        self._commands.append(command)
        if len(self._commands) > self._most:
            self.overflowed = True
            self._commands.clear()

    def take(self) -> list[AllocatorCommand]:
        """Removes and returns all commands."""
        commands, self._commands = self._commands, []
        return commands
