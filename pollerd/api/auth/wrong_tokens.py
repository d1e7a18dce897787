"""How many wrong tokens an address may send: enough for a slip, too few to guess one.

A refusal must not become a lock on others behind the same address. So an address from which too many came is not shut
out: its tokens are compared one a second. And a token that was right there before goes on being looked at by itself.
"""

from __future__ import annotations

import hmac
import ipaddress
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable

BURST = 10
"""Wrong tokens that an address may send at once."""
PER_SECOND = 1.0
"""How many more it may send from then on."""
FAMILIAR_BURST = 40
FAMILIAR_PER_SECOND = 20.0
"""Of an address that has sent too many: how many are compared with those that were right there before."""
MOST_ADDRESSES = 10_000
_FAMILIAR_KEPT = 4
_IPV6_PREFIX = 64
"""What one customer is given: single addresses of it cost nothing."""


class WrongTokens:
    """Counts wrong tokens by address, of the `MOST_ADDRESSES` addresses that sent one last."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._wrong = _Buckets(BURST, PER_SECOND, clock)
        self._unfamiliar = _Buckets(FAMILIAR_BURST, FAMILIAR_PER_SECOND, clock)
        self._familiar: OrderedDict[str, deque[bytes]] = OrderedDict()

    @property
    def addresses(self) -> tuple[int, int]:
        """Of how many addresses wrong tokens are counted, and of how many right ones are known."""
        return len(self._wrong), len(self._familiar)

    def familiar(self, address: str) -> int:
        """How many tokens are known to have been right from the address."""
        return len(self._familiar.get(address, ()))

    def wait(self, address: str, digest: bytes) -> float:
        """Seconds until a token from the address may be compared; 0: now.

        `digest`: the token's. Where it was right there before, that the address is at its limit does not hold it up.
        """
        wait = self._wrong.wait(address)
        if wait <= 0 or self._unfamiliar.wait(address) > 0:
            return wait
        if is_among(self._familiar.get(address, ()), digest):
            return 0.0
        self._unfamiliar.add(address)
        return wait

    def wrong(self, address: str) -> bool:
        """A wrong token came. Whether the address is at its limit by it."""
        self._wrong.add(address)
        return self._wrong.wait(address) > 0

    def right(self, address: str, digest: bytes) -> None:
        """The right token with this digest came."""
        known = self._familiar.setdefault(address, deque(maxlen=_FAMILIAR_KEPT))
        if digest not in known:
            known.append(digest)
        self._familiar.move_to_end(address)
        if len(self._familiar) > MOST_ADDRESSES:
            self._familiar.popitem(last=False)


class _Buckets:
    """Leaky buckets: each holds `size`, and leaks `per_second`."""

    def __init__(self, size: float, per_second: float, clock: Callable[[], float]) -> None:
        self._size, self._per_second, self._clock = size, per_second, clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Address -> (level, when it was that); those that were added to last stand last."""

    def __len__(self) -> int:
        """How many addresses have one."""
        return len(self._levels)

    def _level(self, address: str) -> float:
        level, at = self._levels.get(address, (0.0, 0.0))
        return max(level - (self._clock() - at) * self._per_second, 0.0)

    def wait(self, address: str) -> float:
        """Seconds until one more goes in."""
        return max(self._level(address) + 1 - self._size, 0.0) / self._per_second

    def add(self, address: str) -> None:
        """One more."""
        self._levels[address] = (self._level(address) + 1, self._clock())
        self._levels.move_to_end(address)
        if len(self._levels) > MOST_ADDRESSES:
            self._levels.popitem(last=False)


def is_among(digests: Iterable[bytes], digest: bytes) -> bool:
    """Whether the digest is one of several: each is compared, and in constant time, so that the time tells nothing."""
    found = False
    for known in digests:
        found |= hmac.compare_digest(known, digest)
    return found


def counted_address(peer: str) -> str:
    """What stands for a peer in the count: its IPv4 address, or the /64 of its IPv6 address."""
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return ""  # a Unix socket, or a server that does not say
    if address.version == 4:
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(address), _IPV6_PREFIX), strict=False))
