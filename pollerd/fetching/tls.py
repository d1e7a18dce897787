"""TLS to servers: trust, and session resumption.

asyncio and uvloop do not support sessions, but both ask the context to wrap each connection: there it looks up the
server's last session.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
import time
from collections import OrderedDict
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import NamedTuple, cast

from pollerd.errors import InvalidValueError
from pollerd.texts import _

# The cache of TLS sessions.
#
# A full handshake costs more CPU than the rest of a poll, a resumed one a fraction of it (RFC 8446, section 2.2; for
# TLS 1.2 RFC 5077 and session ids). Python copies and decodes a session each time it is read or set, which with OpenSSL
# 3.0 costs a tenth of a poll: so sessions are read as rarely as possible.

_LONGEST_KEPT_SECONDS = 86_400.0
"""Longest use of a session: resumption does not verify the certificate, so a full handshake is forced after a day."""
_USUAL_LIFETIME_SECONDS = 7_200.0
"""Lifetime if the server states none."""
_RENEWED_AFTER = 0.5
"""Share of a session's lifetime after which the next one is read: reading costs a tenth of a handshake."""
_SPENT_ONCE = 2
"""Consecutive sessions accepted once and then refused that imply that the server accepts each only once."""
_SKIPPED_MORE = 8
"""Growth factor of the number of connections skipped after each failed try with a server that resumes nothing..."""
_MAX_SKIPPED = 1_024
"""...up to this many."""
_ADMITTED_WHEN_FULL = 16
"""When the cache is full, one new origin out of this many is admitted. If all were, each would be evicted before its
next use, and every session would be read in vain."""
_ORIGIN_BYTES = 600
"""Bytes per origin without its session."""
_SESSION_BYTES = 12_000
"""Bytes of a session with a short certificate, measured over 3,000."""
_CERTIFICATE_SHARE = 4
"""Bytes per byte of the certificate beyond a kilobyte, parsed."""


class Destination(NamedTuple):
    """The destination of a session; it is offered nowhere else."""

    origin: str
    """Scheme, host and port of the requested origin."""
    proxy: str | None
    """URL of the proxy on the way."""


class SessionKey(NamedTuple):
    """Key of a session: one server name on the way to one destination."""

    destination: Destination
    server_name: str
    """Distinguishes the proxy's own TLS from that of the origin behind it."""


@dataclass(slots=True)
class _Origin:
    """State of one server's sessions."""

    session: ssl.SSLSession | None = None
    size: int = _ORIGIN_BYTES
    renew_at: float = 0.0
    expires_at: float = 0.0
    uses: int = 0
    """How often the present session was accepted."""
    spent_once: int = 0
    """Consecutive sessions that were accepted once and then refused."""
    refused: int = 0
    """Consecutive sessions that were refused although fresh, or that could not be resumed at all."""
    skip: int = 0
    """Connections left that neither offer nor read a session."""


class TlsConnection(ssl.SSLObject):
    """A TLS connection that knows its session key."""

    key: SessionKey | None = None
    """None: no session may be resumed."""
    offered: ssl.SSLSession | None = None


class SessionCache:
    """Sessions by origin: at most `capacity` bytes, evicting the least recently used first.

    A server that refuses its own sessions costs next to nothing: it is retried after 8, 64 and 512 connections, and
    then after every 1,024.
    """

    def __init__(self, capacity: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`capacity`: bytes, 0 for none. `clock`: monotonic seconds."""
        self._capacity, self._clock = capacity, clock
        self._origins: OrderedDict[SessionKey, _Origin] = OrderedDict()
        self._turned_away = 0
        self.bytes = 0

    def __len__(self) -> int:
        """Returns the number of known origins."""
        return len(self._origins)

    def offer(self, key: SessionKey) -> ssl.SSLSession | None:
        """Returns the session to resume at the origin, if there is a valid one."""
        origin = self._origins.get(key)
        if origin is None:
            return None
        self._origins.move_to_end(key)
        if origin.session is not None and self._clock() >= origin.expires_at:
            self._drop_session(origin)
        return origin.session

    def settle(self, connection: TlsConnection) -> None:
        """Records the result of a new connection, once something was read over it.

        With TLS 1.3 the server sends its sessions after the handshake, along with its answer.
        """
        if connection.key is None or not self._capacity:
            return
        origin = self._origins.get(connection.key)
        if origin is None:
            origin = self._admit(connection.key)
            if origin is None:
                return
        if connection.session_reused:
            self._accepted(origin)
            if origin.spent_once < _SPENT_ONCE and self._clock() < origin.renew_at:
                return
        elif connection.offered is not None:
            self._refused(origin, connection.offered)
        if origin.skip:
            origin.skip -= 1
            return
        self._read(origin, connection)
        self._make_room()

    def _accepted(self, origin: _Origin) -> None:
        origin.uses += 1
        origin.refused = 0
        if origin.uses > 1:
            origin.spent_once = 0

    def _refused(self, origin: _Origin, offered: ssl.SSLSession) -> None:
        if origin.session is not offered:  # a later connection has replaced it
            return
        if origin.uses == 0:
            self._resumes_nothing(origin)
        elif origin.uses == 1:
            origin.spent_once += 1
        self._drop_session(origin)

    def _resumes_nothing(self, origin: _Origin) -> None:
        origin.refused += 1
        origin.skip = min(_SKIPPED_MORE**origin.refused, _MAX_SKIPPED)

    def _read(self, origin: _Origin, connection: TlsConnection) -> None:
        session = connection.session
        self._drop_session(origin)
        if session is None or not (session.has_ticket or (session.id and connection.version() != "TLSv1.3")):
            self._resumes_nothing(origin)
            return
        lifetime = session.ticket_lifetime_hint or session.timeout or _USUAL_LIFETIME_SECONDS
        lifetime = min(lifetime, _LONGEST_KEPT_SECONDS)
        now = self._clock()
        origin.session, origin.uses = session, 0
        origin.renew_at, origin.expires_at = now + lifetime * _RENEWED_AFTER, now + lifetime
        certificate = connection.getpeercert(binary_form=True) or b""
        self._resize(origin, _SESSION_BYTES + _CERTIFICATE_SHARE * max(len(certificate) - 1_024, 0))

    def _drop_session(self, origin: _Origin) -> None:
        origin.session = None
        self._resize(origin, 0)

    def _resize(self, origin: _Origin, session_bytes: int) -> None:
        self.bytes += _ORIGIN_BYTES + session_bytes - origin.size
        origin.size = _ORIGIN_BYTES + session_bytes

    def _admit(self, key: SessionKey) -> _Origin | None:
        """Adds an unknown origin; returns None if it is not admitted."""
        if self.bytes + _SESSION_BYTES > self._capacity:
            self._turned_away += 1
            if self._turned_away % _ADMITTED_WHEN_FULL:
                return None
        origin = self._origins[key] = _Origin()
        self.bytes += origin.size
        self._make_room()
        return origin

    def _make_room(self) -> None:
        while self.bytes > self._capacity:
            _origin, oldest = self._origins.popitem(last=False)
            self.bytes -= oldest.size


dialled: ContextVar[Destination | None] = ContextVar("dialled", default=None)
"""Destination of this task's next TLS connection, set by its caller: the context receives only a name."""


class ResumingContext(ssl.SSLContext):
    """Verifies servers as `ssl.create_default_context` does, and resumes sessions. Offers HTTP/1.1 only.

    The certificate of a resumed session was verified, for this name, when the session began.
    """

    sslobject_class = TlsConnection
    sessions: SessionCache

    @classmethod
    def create(cls, ca_file: str | None, session_bytes: int) -> ResumingContext:
        """`ca_file`: PEM file of authorities trusted in addition to the system's; `session_bytes`: memory for sessions.

        Raises `InvalidValueError` for a `ca_file` that cannot be loaded.
        """
        context = cls(ssl.PROTOCOL_TLS_CLIENT)
        context.sessions = SessionCache(session_bytes)
        if sys.version_info >= (3, 13):  # as create_default_context does
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | ssl.VERIFY_X509_STRICT
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        context.set_alpn_protocols(["http/1.1"])
        if ca_file is not None:
            try:
                context.load_verify_locations(cafile=ca_file)
            except OSError as error:
                raise InvalidValueError("ca_file", _("a readable PEM file of certificates"), ca_file) from error
        return context

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """Wraps as the base class does, with the server's last session."""
        destination = dialled.get()
        key = None
        if destination is not None and isinstance(server_hostname, str) and session is None:
            key = SessionKey(destination, server_hostname)
            session = self.sessions.offer(key)
        wrapped = super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)
        connection = cast(TlsConnection, wrapped)
        connection.key, connection.offered = key, session
        return wrapped


def tls_of(transport: asyncio.BaseTransport | None) -> TlsConnection | None:
    """Returns the TLS of a connection made under a `ResumingContext`; None if it has none."""
    connection = None if transport is None else transport.get_extra_info("ssl_object")
    return connection if isinstance(connection, TlsConnection) else None
