"""The user's settings of the API: listening address and tokens."""

from __future__ import annotations

import hashlib
import ipaddress
import re
from dataclasses import dataclass
from enum import StrEnum

from pollerd.errors import InvalidValueError

_TOKEN = re.compile(r"[\x21-\x7e]{1,512}")
_LISTEN = re.compile(r"(?:\[(?P<bracketed>[^\]]+)\]|(?P<plain>[^:\[\]]+)):(?P<port>[0-9]{1,5})")
_HASHED = "sha256:"
_HASH = re.compile(r"sha256:(?P<digest>[0-9a-f]{64})")
_MAX_PORT = 65_535


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
            raise InvalidValueError(name, "a token, or sha256: and 64 hexadecimal digits", "(not shown)")
        if not _TOKEN.fullmatch(secret):
            raise InvalidValueError(name, "1 to 512 printable ASCII characters without spaces", "(not shown)")
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
class ApiSettings:
    """Listening address and tokens of the API.

    host: an IP address or a name, without brackets. port: 0 to 65535; 0: any free one. Without tokens all callers may
    do everything, so only loopback (127.0.0.0/8, ::1, localhost) is allowed. metrics_version: whether the metrics show
    the program's version to callers without a token. Raises `InvalidValueError` for field `listen`, `token` or
    `read_token`.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    tokens: tuple[ApiToken, ...] = ()
    metrics_version: bool = False

    def __post_init__(self) -> None:
        if not self.host or not 0 <= self.port <= _MAX_PORT:
            raise InvalidValueError("listen", "a host and a port from 0 to 65535", f"{self.host}:{self.port}")
        if not self.tokens and not is_loopback(self.host):
            allowed = "a loopback address (127.0.0.1, ::1, localhost) unless a token is set"
            raise InvalidValueError("listen", allowed, self.host)
        if len({token.digest for token in self.tokens}) < len(self.tokens):
            raise InvalidValueError("read_token", "another than token", "(not shown)")

    @classmethod
    def listening(
        cls, listen: str, *, token: str | None = None, read_token: str | None = None, metrics_version: bool = False
    ) -> ApiSettings:
        """Parses "host:port" ("[host]:port" for IPv6). `token` allows reading and writing, `read_token` reading."""
        match = _LISTEN.fullmatch(listen)
        if match is None:
            raise InvalidValueError("listen", "host:port, or [host]:port for IPv6", listen)
        tokens = []
        if token is not None:
            tokens.append(ApiToken.of("token", token, Scope.READ, Scope.WRITE))
        if read_token is not None:
            tokens.append(ApiToken.of("read_token", read_token, Scope.READ))
        return cls(match["bracketed"] or match["plain"], int(match["port"]), tuple(tokens), metrics_version)


def is_loopback(host: str) -> bool:
    """Returns whether only this machine reaches the host: localhost, 127.0.0.0/8, ::1."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
