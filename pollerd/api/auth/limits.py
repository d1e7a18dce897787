"""Limits wrong sign-ins and tokens, and open calls.

Limits wrong sign-ins by address and by name: enough for mistakes, too few for guessing.

A name over its limit would lock its user out. So from an address where it signed in before only that address counts.
"""

from __future__ import annotations

import hmac
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable

from pollerd.limits import MAX_KEYS, LeakyBuckets

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
        self._addresses, self._names = LeakyBuckets(BURST, 1 / ADDRESS_SECONDS), LeakyBuckets(BURST, 1 / NAME_SECONDS)
        self._clock = clock
        self._familiar: OrderedDict[tuple[str, str], None] = OrderedDict()

    def wait(self, address: str, name: str | None) -> float:
        """Returns the seconds until an attempt may be made; 0: now. `name`: None for tokens and codes."""
        now = self._clock()
        wait = self._addresses.wait(now, address)
        if name is None or (address, _counted(name)) in self._familiar:
            return wait
        return max(wait, self._names.wait(now, _counted(name)))

    def begin(self, address: str, name: str | None) -> None:
        """Counts an attempt, before it is known how it ends: so many at once are counted, too."""
        self._addresses.add(self._clock(), address)
        if name is not None:
            self._names.add(self._clock(), _counted(name))

    def take_back(self, address: str, name: str | None) -> None:
        """Takes an attempt back that was not wrong."""
        self._addresses.take_back(self._clock(), address)
        if name is not None:
            self._names.take_back(self._clock(), _counted(name))

    def right(self, address: str, name: str | None) -> None:
        """Notes that an attempt was right."""
        self.take_back(address, name)
        if name is None:
            return
        key = (address, _counted(name))
        self._familiar[key] = None
        self._familiar.move_to_end(key)
        if len(self._familiar) > MAX_KEYS:
            self._familiar.popitem(last=False)


def _counted(name: str) -> str:
    return name[:_NAME_LENGTH].casefold()


# Limits wrong tokens per address: enough for mistakes, too few for guessing.
#
# The limit must not lock out others behind the same address. So an address with too many wrong tokens is not blocked:
# its tokens are compared at one per second. Tokens that were right there before are compared separately.

PER_SECOND = 1.0
"""Further wrong tokens per second."""
FAMILIAR_BURST = 40
FAMILIAR_PER_SECOND = 20.0
"""Rate, for an address over the limit, of comparisons with tokens that were right there before."""
MAX_ADDRESSES = MAX_KEYS
_FAMILIAR_KEPT = 4


class WrongTokens:
    """Counts wrong tokens by address, for the last `MAX_ADDRESSES` addresses that sent one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._wrong = LeakyBuckets(BURST, PER_SECOND)
        self._unfamiliar = LeakyBuckets(FAMILIAR_BURST, FAMILIAR_PER_SECOND)
        self._clock = clock
        self._familiar: OrderedDict[str, deque[bytes]] = OrderedDict()

    @property
    def addresses(self) -> tuple[int, int]:
        """Numbers of addresses with counted wrong tokens, and with known right ones."""
        return len(self._wrong), len(self._familiar)

    def wait(self, address: str, digest: bytes) -> float:
        """Returns the seconds until a token from the address may be compared; 0: now.

        `digest`: the token's. A token that was right there before is not delayed by the limit.
        """
        now = self._clock()
        wait = self._wrong.wait(now, address)
        if wait <= 0 or self._unfamiliar.wait(now, address) > 0:
            return wait
        if is_among(self._familiar.get(address, ()), digest):
            return 0.0
        self._unfamiliar.add(now, address)
        return wait

    def wrong(self, address: str) -> bool:
        """Counts a wrong token. Returns whether the address has reached its limit."""
        now = self._clock()
        self._wrong.add(now, address)
        return self._wrong.wait(now, address) > 0

    def right(self, address: str, digest: bytes) -> None:
        """Records a right token with this digest."""
        known = self._familiar.setdefault(address, deque(maxlen=_FAMILIAR_KEPT))
        if digest not in known:
            known.append(digest)
        self._familiar.move_to_end(address)
        if len(self._familiar) > MAX_ADDRESSES:
            self._familiar.popitem(last=False)


def is_among(digests: Iterable[bytes], digest: bytes) -> bool:
    """Returns whether the digest is in the list, comparing each in constant time, so that the time reveals nothing."""
    is_known = False
    for known in digests:
        is_known |= hmac.compare_digest(known, digest)
    return is_known


# How often one address may call what is open to everybody and costs work.

HUB_PATHS = "/websub/"
"""Beginning of the paths that WebSub hubs call."""
INDEXNOW_PATH = "/indexnow"
OPEN_BURST, OPEN_PER_SECOND = 300.0, 10.0
"""Calls at once, and calls per second."""
