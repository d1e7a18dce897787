"""The user's settings of the API: listening address, tokens, and who else is let in."""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from pollerd.errors import InvalidValueError, refusal
from pollerd.texts import _

_TOKEN = re.compile(r"[\x21-\x7e]{1,512}")
_LISTEN = re.compile(r"(?:\[(?P<bracketed>[^\]]+)\]|(?P<plain>[^:\[\]]+)):(?P<port>[0-9]{1,5})")
_HASHED = "sha256:"
_HASH = re.compile(r"sha256:(?P<digest>[0-9a-f]{64})")
_MAX_PORT = 65_535
_HOST_NAME = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?\.?)+(?::[0-9]{1,5})?|\[[0-9a-f:.]+\](?::[0-9]{1,5})?")
SHORTEST_TOKEN = 16
"""Characters. A shorter token can be guessed; it is warned of, and the next version refuses it."""
_HEADER_NAME = re.compile(r"[A-Za-z0-9-]{1,100}")
_NOT_FOR_USERS = frozenset(
    {"authorization", "cookie", "host", "origin", "content-type", "content-length", "x-forwarded-for", "x-csrf-token"}
)
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Scope(StrEnum):
    """Permission of a token."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True, slots=True)
class ApiToken:
    """A stored token: its name, its SHA-256, its scopes. The token itself is not stored."""

    name: str
    digest: bytes
    scopes: frozenset[Scope]

    @classmethod
    def of(cls, name: str, secret: str, *scopes: Scope) -> ApiToken:
        """Creates a token from the secret, or from its hash as `hash_of` returns it.

        Raises `InvalidValueError` (field `name`) unless `secret` is 1 to 512 printable ASCII characters.
        """
        hashed = _HASH.fullmatch(secret)
        if hashed is not None:
            return cls(name, bytes.fromhex(hashed["digest"]), frozenset(scopes))
        if secret.startswith(_HASHED):
            raise InvalidValueError(name, _("a token, or sha256: and 64 hexadecimal digits"), "(not shown)")
        if not _TOKEN.fullmatch(secret):
            raise InvalidValueError(name, _("1 to 512 printable ASCII characters without spaces"), "(not shown)")
        return cls(name, digest_of(secret), frozenset(scopes))


def hash_of(secret: str) -> str:
    """Returns the hash that recognises a token: it may be stored in a configuration, and is no token itself."""
    return _HASHED + digest_of(secret).hex()


def is_hash(text: str) -> bool:
    """Returns whether `text` is a result of `hash_of`."""
    return _HASH.fullmatch(text) is not None


def digest_of(secret: str) -> bytes:
    """Returns the SHA-256 of a token, 32 bytes."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()


@dataclass(frozen=True)
class SignInSettings:
    """Who is let in besides those with a token of the settings.

    Raises `InvalidValueError` for field `allowed_host`, `trusted_proxy` or `user_header`.
    """

    required: bool = False
    """Whether everybody must sign in, even if there are neither tokens nor users yet."""
    allowed_hosts: tuple[str, ...] = ()
    """Names, perhaps with a port, under which pages of ours are reached, in small letters."""
    trusted_proxies: tuple[Network, ...] = ()
    """Addresses of proxies that say from where calls come (X-Forwarded-For, X-Forwarded-Proto)."""
    user_header: str | None = None
    """Header in which they also name the user; None: they do not."""

    def __post_init__(self) -> None:
        for host in self.allowed_hosts:
            if not _HOST_NAME.fullmatch(host):
                raise InvalidValueError("allowed_host", _("a host name or address, perhaps with :port"), host)
        if self.user_header is not None and (
            not _HEADER_NAME.fullmatch(self.user_header) or self.user_header.lower() in _NOT_FOR_USERS
        ):
            allowed = _("the name of a header that only the proxy sets, such as X-Remote-User")
            raise InvalidValueError("user_header", allowed, self.user_header)
        if self.user_header is not None and not self.trusted_proxies:
            raise InvalidValueError("trusted_proxy", _("given where user_header is"), None)

    @classmethod
    def of(
        cls,
        *,
        required: bool = False,
        allowed_hosts: Sequence[str] = (),
        trusted_proxies: Sequence[str] = (),
        user_header: str | None = None,
    ) -> SignInSettings:
        """Parses what the user wrote."""
        hosts = tuple(host.lower() for host in allowed_hosts)
        return cls(required, hosts, tuple(map(_network, trusted_proxies)), user_header)

    def trusts(self, address: str) -> bool:
        """Returns whether the address is that of a trusted proxy."""
        if not self.trusted_proxies:
            return False
        try:
            sender = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        plain = getattr(sender, "ipv4_mapped", None) or sender
        return any(plain in network for network in self.trusted_proxies)


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        raise InvalidValueError("trusted_proxy", _("an IP address, or a network such as 10.0.0.0/8"), text) from None


_NO_ENTRANCE = SignInSettings()


@dataclass(frozen=True)
class ApiSettings:
    """Listening address and tokens of the API.

    host: an IP address or a name, without brackets. port: 0 to 65535; 0: any free one. Without tokens, and unless
    everybody must sign in, all callers may do everything, so only loopback (127.0.0.0/8, ::1, localhost) is allowed.
    metrics_version: whether the metrics show the program's version to callers without a token. Raises
    `InvalidValueError` for field `listen`, `token` or `read_token`.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    tokens: tuple[ApiToken, ...] = ()
    metrics_version: bool = False
    entrance: SignInSettings = _NO_ENTRANCE

    def __post_init__(self) -> None:
        if not self.host or not 0 <= self.port <= _MAX_PORT:
            raise InvalidValueError("listen", _("a host and a port from 0 to 65535"), f"{self.host}:{self.port}")
        if not self.closed and not is_loopback(self.host):
            allowed = _("a loopback address (127.0.0.1, ::1, localhost) unless a token or sign_in is set")
            raise InvalidValueError("listen", allowed, self.host)
        if len({token.digest for token in self.tokens}) < len(self.tokens):
            raise refusal("read_token", _("it is the same as token: a reader could then change everything"))

    @property
    def closed(self) -> bool:
        """Whether these settings alone demand that callers say who they are."""
        return bool(self.tokens) or self.entrance.required or bool(self.entrance.trusted_proxies)

    @classmethod
    def listening(
        cls,
        listen: str,
        *,
        token: str | None = None,
        read_token: str | None = None,
        metrics_version: bool = False,
        entrance: SignInSettings = _NO_ENTRANCE,
    ) -> ApiSettings:
        """Parses "host:port" ("[host]:port" for IPv6). `token` allows reading and writing, `read_token` reading."""
        match = _LISTEN.fullmatch(listen)
        if match is None:
            raise InvalidValueError("listen", _("host:port, or [host]:port for IPv6"), listen)
        tokens = []
        if token is not None:
            tokens.append(ApiToken.of("token", token, Scope.READ, Scope.WRITE))
        if read_token is not None:
            tokens.append(ApiToken.of("read_token", read_token, Scope.READ))
        host = match["bracketed"] or match["plain"]
        return cls(host, int(match["port"]), tuple(tokens), metrics_version, entrance)


def is_loopback(host: str) -> bool:
    """Returns whether only this machine reaches the host: localhost, 127.0.0.0/8, ::1."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
