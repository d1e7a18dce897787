"""Commands that change an allocator, for the followers of the active one."""

from __future__ import annotations

from collections.abc import Callable

from pollerd.allocation import Allocator

AllocatorCommand = Callable[[Allocator], None]
"""Changes an allocator: adds or removes sites, observes evidence, sets the budget."""


class CommandQueue:
    """The commands that one follower has not executed yet, oldest first.

    Holds at most `most` of them. One more overflows it: it then drops all and accepts no more.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._commands: list[AllocatorCommand] = []
        self.overflowed = False
        """Whether the follower fell too far behind and has missed commands."""

    def __len__(self) -> int:
        """Returns the number of commands."""
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
