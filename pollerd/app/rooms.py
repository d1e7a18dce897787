"""The optional rooms: each is whole in itself, and is imported by `app` and `cli` only, when it is asked for.

A daemon that uses none of them loads none, and works if their folders are not there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pollerd.errors import ConfigError
from pollerd.texts import N_, _


@dataclass(frozen=True)
class Room:
    """An optional room."""

    package: str
    title: str
    """What it is, for people."""
    settings: tuple[str, ...] = ()
    """Settings of the daemon that ask for it, if they have a value."""
    commands: tuple[str, ...] = ()
    """Commands that use it."""

    @contextmanager
    def needed(self) -> Iterator[None]:
        """Surrounds the imports from the room. Raises ConfigError if it is not part of this installation."""
        try:
            yield
        except ModuleNotFoundError as error:
            if error.name is None or not f"{error.name}.".startswith(f"{self.package}."):
                raise
            used = ", ".join((*self.settings, *self.commands))
            raise ConfigError(
                _(
                    "{title} ({used}) is not part of this installation: {error} is missing",
                    title=_(self.title),
                    used=used,
                    error=error.name,
                )
            ) from error


CRAWLER = Room("pollerd.crawler", N_("the focused crawler"), settings=("topic", "seeds"))
MOVING = Room("pollerd.moving", N_("moving sites in from other programs"), commands=("pollerd sites import --from",))
LAB = Room("pollerd.lab", N_("the lab"), commands=("pollerd simulate", "pollerd reproduce"))
ROOMS = (CRAWLER, MOVING, LAB)
