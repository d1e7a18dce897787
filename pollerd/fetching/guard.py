"""The guard, which decides which addresses may be dialled, with its resolver and its dialling.

It checks the address really dialled, at the moment of dialling, so neither numeric spellings nor a name server that
changes its answer bypass it. A name is refused in advance if any of its addresses is denied: otherwise the result would
depend on which one is tried, and vary between retries. The table is our own: what Python's `ipaddress` calls private
differs between versions.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, Final, TypeAlias

import aiohappyeyeballs
from aiohttp import ThreadedResolver
from aiohttp.abc import AbstractResolver, ResolveResult

from pollerd.model import OutcomeKind
from pollerd.texts import N_, _

DENIED_ERRNO: Final = 70_001
"""Marks our refusal if several addresses of a name failed and only the common errno survives."""

_Network = IPv4Network | IPv6Network

_METADATA: Final[dict[_Network, str]] = {
    ip_network(address): N_("cloud metadata")
    for address in (
        "169.254.169.254",
        "169.254.170.2",
        "169.254.170.23",
        "168.63.129.16",
        "100.100.100.200",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
    )
}

_PRIVATE: Final[dict[_Network, str]] = {
    ip_network(network): reason
    for network, reason in {
        "127.0.0.0/8": N_("loopback"),
        "10.0.0.0/8": N_("private"),
        "172.16.0.0/12": N_("private"),
        "192.168.0.0/16": N_("private"),
        "169.254.0.0/16": N_("link-local"),
        "100.64.0.0/10": N_("carrier-grade NAT"),
        "198.18.0.0/15": N_("benchmarking"),
        "::1/128": N_("loopback"),
        "fc00::/7": N_("unique local"),
        "fe80::/10": N_("link-local"),
        "fec0::/10": N_("site-local"),
    }.items()
}
"""Private networks: opened by `allow_private`."""
WITHOUT_FLAG: Final = N_(", not polled without --allow-private")
"""Suffix of a refusal that the flag would lift."""

_NEVER: Final[dict[_Network, str]] = {
    ip_network(network): reason
    for network, reason in {
        "0.0.0.0/8": N_("unspecified"),
        "192.0.0.0/24": N_("protocol assignments"),
        "192.0.2.0/24": N_("documentation"),
        "192.88.99.0/24": N_("6to4 relay"),
        "198.51.100.0/24": N_("documentation"),
        "203.0.113.0/24": N_("documentation"),
        "224.0.0.0/4": N_("multicast"),
        "255.255.255.255/32": N_("broadcast"),
        "240.0.0.0/4": N_("reserved"),
        "::/128": N_("unspecified"),
        "::/96": "IPv4-compatible",
        "ff00::/8": N_("multicast"),
        "2001::/32": "Teredo",
        "2001::/23": N_("protocol assignments"),
        "2001:db8::/32": N_("documentation"),
        "3fff::/20": N_("documentation"),
    }.items()
}
"""Networks without pollable hosts: always denied."""

_GLOBAL_IPV6: Final = IPv6Network("2000::/3")
_MAPPED: Final = IPv6Network("::ffff:0:0/96")
_NAT64: Final = IPv6Network("64:ff9b::/96")
_LOCAL_NAT64: Final = IPv6Network("64:ff9b:1::/48")
_LOW_32_BITS: Final = 0xFFFF_FFFF
_SIX_TO_FOUR: Final = IPv6Network("2002::/16")


class BlockedAddressError(OSError):
    """The guard's refusal. An OSError, because the connector handles only those cleanly."""

    def __init__(self, reason: str) -> None:
        super().__init__(DENIED_ERRNO, reason)

    def __str__(self) -> str:
        return str(self.strerror)


def denial(address: str, allow_private: bool = False) -> str | None:
    """Returns why `address`, an IPv4 or IPv6 address as text (a zone is ignored), may not be dialled; None if it may.

    IPv6 addresses that embed an IPv4 address (mapped, NAT64, 6to4) are judged by that address; Teredo and
    IPv4-compatible ones are always refused. `allow_private` opens loopback, private, link-local, carrier-grade NAT and
    benchmarking networks. Cloud metadata services stay closed even then: they expose the machine's credentials, and
    serve no pages. Text that is not an address is refused.
    """
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return _("not an IP address: {address!r}", address=address)
    reason = _reason(ip, allow_private)
    if reason is None:
        return None
    may_be_opened = not allow_private and _reason(ip, True) is None
    return _(
        "{reason} address {ip}{without_flag}",
        reason=_(reason),
        ip=ip,
        without_flag=_(WITHOUT_FLAG) if may_be_opened else "",
    )


def _reason(ip: IPv4Address | IPv6Address, allow_private: bool) -> str | None:
    carried = _carried(ip)
    if carried is not None:
        inner = _reason(carried, allow_private)
        return None if inner is None else _("{inner} ({carried}) in an IPv6", inner=inner, carried=carried)
    if reason := _listed(ip, _METADATA):
        return reason
    if ip in _LOCAL_NAT64:
        return _reason_in_local_nat64(int(ip), allow_private)
    if reason := _listed(ip, _PRIVATE):
        return None if allow_private else reason
    if reason := _listed(ip, _NEVER):
        return reason
    if ip.version == 6 and ip not in _GLOBAL_IPV6:
        return "reserved"
    return None


def _carried(ip: IPv4Address | IPv6Address) -> IPv4Address | None:
    """Returns the IPv4 address that packets to this IPv6 address end at, if any."""
    if isinstance(ip, IPv4Address):
        return None
    if ip in _MAPPED or ip in _NAT64:
        return IPv4Address(int(ip) & _LOW_32_BITS)
    if ip in _SIX_TO_FOUR:
        return IPv4Address(int(ip) >> 80 & _LOW_32_BITS)
    return None


def _reason_in_local_nat64(ip: int, allow_private: bool) -> str | None:
    """Judges an address in the operator's own prefix; the IPv4 address has two places (RFC 6052, section 2.2)."""
    if not allow_private:
        return _("local NAT64")
    last = IPv4Address(ip & _LOW_32_BITS)
    split = IPv4Address((ip >> 64 & 0xFFFF) << 16 | (ip >> 40 & 0xFFFF))
    return _listed(last, _METADATA) or _listed(split, _METADATA)


def _listed(ip: IPv4Address | IPv6Address, table: dict[_Network, str]) -> str | None:
    return next((reason for network, reason in table.items() if ip in network), None)


def open_socket(target: tuple[int, int, int, str, tuple[Any, ...]]) -> socket.socket:
    """Creates a socket without a guard, only for connections to the operator's own proxy."""
    family, kind, protocol, _canonical_name, _address = target
    return socket.socket(family, kind, protocol)


_OWN: set[tuple[str, int]] = set()


def open_own(places: Collection[tuple[str, int]]) -> None:
    """Lets guards dial these loopback addresses, each at one port, on which this process itself serves example sites.

    Other ports of the same addresses stay closed: on them other programs may answer.
    """
    _OWN.update(places)


def close_own(places: Collection[tuple[str, int]]) -> None:
    """Closes them again."""
    _OWN.difference_update(places)


class Guard:
    """A socket factory for the connector that refuses denied addresses before a socket is created."""

    def __init__(self, allow_private: bool) -> None:
        self._denial = lru_cache(maxsize=4096)(lambda address: denial(address, allow_private))

    def denial(self, address: str) -> str | None:
        """As the function `denial`, with this guard's `allow_private`; cached for the latest 4,096 addresses."""
        return self._denial(address)

    def denial_of_any(self, addresses: Iterable[str]) -> str | None:
        """Returns why a name with these addresses is refused: the reason of the first denied one; None: none is."""
        return next((reason for address in addresses if (reason := self._denial(address)) is not None), None)

    def __call__(self, target: tuple[int, int, int, str, tuple[Any, ...]]) -> socket.socket:
        """Returns a new socket for `target`, an entry of `getaddrinfo`. Raises `BlockedAddressError`."""
        reason = self._denial(target[4][0])
        if reason is not None and target[4][:2] not in _OWN:
            raise BlockedAddressError(reason)
        return open_socket(target)


# Name lookup: the guard checks all addresses of a name before any is dialled.


class GuardedResolver(AbstractResolver):
    """The system's resolver, for a connector. Refuses a name with a denied address.

    It does not keep only the allowed ones: a name with inner and outer addresses is an attack or a mistake, and its
    intent is unknown. A proxy could not be restricted to some addresses, either.
    """

    def __init__(self, guard: Guard) -> None:
        """Must be called inside the running loop."""
        self._guard, self._system = guard, ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Returns all addresses of the name. Raises `BlockedAddressError`, and OSErrors of the lookup."""
        addresses = await self._system.resolve(host, port, family)
        reason = self._guard.denial_of_any(entry["host"] for entry in addresses)
        if reason is not None:
            raise BlockedAddressError(reason)
        return addresses

    async def close(self) -> None:
        """Does nothing: there are no resources."""


# Dialling through the guard: all addresses of a name are judged, and one of those is dialled, no other.

Address: TypeAlias = tuple[int, int, int, str, tuple[Any, ...]]
"""An entry of `getaddrinfo`."""
_DELAY_SECONDS = 0.25
"""How long one address is tried alone before the next one is tried, too (RFC 8305)."""
DIALLING_FAULTS = (OSError, UnicodeError, RuntimeError, ValueError)
"""Exceptions of a dial that are not our faults. RuntimeError: uvloop's, of some connects."""


async def allowed_addresses(guard: Guard, host: str, port: int) -> list[Address]:
    """Returns the addresses of a host, all of them allowed; `host`: a name, or an address without brackets.

    Raises `BlockedAddressError` if any is denied, and OSErrors and UnicodeErrors of the look-up.
    """
    addresses = await addresses_of(host, port)
    reason = guard.denial_of_any(str(entry[4][0]) for entry in addresses)
    if reason is not None:
        raise BlockedAddressError(reason)
    return addresses


async def addresses_of(host: str, port: int) -> list[Address]:
    """Returns the addresses of a host, not judged. Raises OSErrors and UnicodeErrors."""
    entries = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(int(family), int(kind), proto, name, tuple(place)) for family, kind, proto, name, place in entries]


async def connect(addresses: Sequence[Address], create: Any) -> socket.socket:
    """Connects to one of these addresses and to no other. `create`: makes the socket, for example a guard.

    Raises OSErrors.
    """
    sock = await aiohappyeyeballs.start_connection(
        list(addresses), happy_eyeballs_delay=_DELAY_SECONDS, interleave=1, socket_factory=create
    )
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


async def dial(guard: Guard, host: str, port: int) -> socket.socket:
    """Returns a connected, non-blocking socket to an allowed address of the host. Raises `DIALLING_FAULTS`."""
    return await connect(await allowed_addresses(guard, host, port), guard)


def why_not_dialled(error: BaseException) -> tuple[OutcomeKind, str]:
    """Returns kind and detail of one of `DIALLING_FAULTS`."""
    if isinstance(error, OSError) and error.errno == DENIED_ERRNO:
        return OutcomeKind.BLOCKED_ADDRESS, error.strerror or _("address denied")
    if isinstance(error, socket.gaierror | UnicodeError):
        return OutcomeKind.DNS_ERROR, getattr(error, "strerror", None) or _("not a name")
    if isinstance(error, TimeoutError) or getattr(error, "errno", None) == errno.ETIMEDOUT:
        return OutcomeKind.TIMEOUT, _("no connection within the deadline")
    return OutcomeKind.CONNECT_ERROR, getattr(error, "strerror", None) or str(error) or _("no connection")
