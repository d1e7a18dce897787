"""Limits wrong tokens per address: enough for mistakes, too few for guessing.

The limit must not lock out others behind the same address. So an address with too many wrong tokens is not blocked: its
tokens are compared at one per second. Tokens that were right there before are compared separately.
"""

from __future__ import annotations

import hmac
import ipaddress
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable

from pollerd.limits.leaky_buckets import MOST_KEYS, LeakyBuckets

BURST = 10
"""Wrong tokens that an address may send in a burst."""
PER_SECOND = 1.0
"""Further wrong tokens per second."""
FAMILIAR_BURST = 40
FAMILIAR_PER_SECOND = 20.0
"""Rate, for an address over the limit, of comparisons with tokens that were right there before."""
MOST_ADDRESSES = MOST_KEYS
_FAMILIAR_KEPT = 4
_IPV6_PREFIX = 64
"""Prefix assigned to one customer, who has all of its addresses."""


class WrongTokens:
    """Counts wrong tokens by address, for the last `MOST_ADDRESSES` addresses that sent one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._wrong = LeakyBuckets(BURST, PER_SECOND, clock)
        self._unfamiliar = LeakyBuckets(FAMILIAR_BURST, FAMILIAR_PER_SECOND, clock)
        self._familiar: OrderedDict[str, deque[bytes]] = OrderedDict()

    @property
    def addresses(self) -> tuple[int, int]:
        """Numbers of addresses with counted wrong tokens, and with known right ones."""
        return len(self._wrong), len(self._familiar)

    def wait(self, address: str, digest: bytes) -> float:
        """Returns the seconds until a token from the address may be compared; 0: now.

        `digest`: the token's. A token that was right there before is not delayed by the limit.
        """
        wait = self._wrong.wait(address)
        if wait <= 0 or self._unfamiliar.wait(address) > 0:
            return wait
        if is_among(self._familiar.get(address, ()), digest):
            return 0.0
        self._unfamiliar.add(address)
        return wait

    def wrong(self, address: str) -> bool:
        """Counts a wrong token. Returns whether the address has reached its limit."""
        self._wrong.add(address)
        return self._wrong.wait(address) > 0

    def right(self, address: str, digest: bytes) -> None:
        """Records a right token with this digest."""
        known = self._familiar.setdefault(address, deque(maxlen=_FAMILIAR_KEPT))
        if digest not in known:
            known.append(digest)
        self._familiar.move_to_end(address)
        if len(self._familiar) > MOST_ADDRESSES:
            self._familiar.popitem(last=False)


def is_among(digests: Iterable[bytes], digest: bytes) -> bool:
    """Returns whether the digest is in the list, comparing each in constant time, so that the time reveals nothing."""
    found = False
    for known in digests:
        found |= hmac.compare_digest(known, digest)
    return found


def counted_address(peer: str) -> str:
    """Returns the counted form of a peer's address: IPv4, or the /64 of an IPv6 address."""
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return ""  # a Unix socket, or a server that does not report it
    if address.version == 4:
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(address), _IPV6_PREFIX), strict=False))
