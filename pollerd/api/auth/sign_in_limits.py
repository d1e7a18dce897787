"""Limits wrong sign-ins by address and by name: enough for mistakes, too few for guessing.

A name over its limit would lock its user out. So from an address where it signed in before only that address counts.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from pollerd.limits.leaky_buckets import MOST_KEYS, LeakyBuckets

BURST = 10
"""Wrong sign-ins of an address, and of a name, in a burst."""
ADDRESS_SECONDS = 3.0
"""Time in which an address may have one more."""
NAME_SECONDS = 5.0
"""Time in which a name may have one more. It is also how long wrong sign-ins may keep a right one waiting."""
_NAME_LENGTH = 64


class SignInLimits:
    """Counts attempts to sign in; those that succeed are taken back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._addresses = LeakyBuckets(BURST, 1 / ADDRESS_SECONDS, clock)
        self._names = LeakyBuckets(BURST, 1 / NAME_SECONDS, clock)
        self._familiar: OrderedDict[tuple[str, str], None] = OrderedDict()

    def wait(self, address: str, name: str | None) -> float:
        """Returns the seconds until an attempt may be made; 0: now. `name`: None for tokens and codes."""
        wait = self._addresses.wait(address)
        if name is None or (address, _counted(name)) in self._familiar:
            return wait
        return max(wait, self._names.wait(_counted(name)))

    def begin(self, address: str, name: str | None) -> None:
        """Counts an attempt, before it is known how it ends: so many at once are counted, too."""
        self._addresses.add(address)
        if name is not None:
            self._names.add(_counted(name))

    def take_back(self, address: str, name: str | None) -> None:
        """Takes an attempt back that was not wrong."""
        self._addresses.take_back(address)
        if name is not None:
            self._names.take_back(_counted(name))

    def right(self, address: str, name: str | None) -> None:
        """Notes that an attempt was right."""
        self.take_back(address, name)
        if name is None:
            return
        key = (address, _counted(name))
        self._familiar[key] = None
        self._familiar.move_to_end(key)
        if len(self._familiar) > MOST_KEYS:
            self._familiar.popitem(last=False)


def _counted(name: str) -> str:
    return name[:_NAME_LENGTH].casefold()
