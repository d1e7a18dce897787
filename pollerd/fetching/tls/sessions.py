"""TLS sessions that servers have given, kept to be resumed.

A full handshake costs more CPU than all the rest of a poll, a resumed one a fraction of it (RFC 8446, section 2.2; for
TLS 1.2 RFC 5077 and session ids). Python makes a copy of a session, decoded anew, each time one is read or set, which
with OpenSSL 3.0 costs a tenth of a poll: so sessions are read as rarely as they are good for.
"""

from __future__ import annotations

import ssl
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

_LONGEST_KEPT_SECONDS = 86_400.0
"""The certificate is not looked at again while a session is resumed: after a day it is, whatever the server allows."""
_USUAL_LIFETIME_SECONDS = 7_200.0
"""Where the server does not say how long its session is good for."""
_RENEWED_AFTER = 0.5
"""Share of a session's lifetime after which the next one is taken: reading one costs a tenth of a handshake."""
_SPENT_ONCE = 2
"""A session that was good once and then no more, so often in a row, is one of a server that takes each only once."""
_SKIPPED_MORE = 8
"""A server that resumes nothing is left alone for so many times more connections after each try..."""
_MOST_SKIPPED = 1_024
"""...up to this many."""
_ADMITTED_WHEN_FULL = 16
"""Where there are more origins than there is room for, one in so many is let in. Were all let in, each would be thrown
out before its turn comes round again, and every session would be read for nothing."""
_ORIGIN_BYTES = 600
"""What is kept of an origin beside its session."""
_SESSION_BYTES = 12_000
"""A session with a short certificate, measured over 3,000."""
_CERTIFICATE_SHARE = 4
"""Bytes that a byte of the certificate beyond a kilobyte takes, parsed."""


class Destination(NamedTuple):
    """What a session belongs to: it is offered nowhere else."""

    origin: str
    """Scheme, host and port of what is asked for."""
    proxy: str | None
    """URL of the proxy that leads there."""


class SessionKey(NamedTuple):
    """Whose sessions: those of one server name on the way to one destination."""

    destination: Destination
    server_name: str
    """Tells the proxy's own TLS from that of the origin behind it."""


@dataclass(slots=True)
class _Origin:
    """What is known of one server's sessions."""

    session: ssl.SSLSession | None = None
    size: int = _ORIGIN_BYTES
    renew_at: float = 0.0
    expires_at: float = 0.0
    uses: int = 0
    """How often the present session was accepted."""
    spent_once: int = 0
    """Sessions in a row that were accepted once and then refused."""
    refused: int = 0
    """Sessions in a row that were refused although they were fresh, or that could not be resumed at all."""
    skip: int = 0
    """Connections still to come that neither offer nor read a session."""


class TlsConnection(ssl.SSLObject):
    """A TLS connection that knows whose sessions it may resume."""

    key: SessionKey | None = None
    """None: nobody's."""
    offered: ssl.SSLSession | None = None


class SessionCache:
    """Sessions by origin: at most `capacity` bytes, the least recently used thrown out first.

    A server that refuses what it gave costs next to nothing: it is tried again after 8, 64 and 512 connections, and
    then after every 1,024.
    """

    def __init__(self, capacity: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`capacity`: bytes, 0 for none. `clock`: seconds that never run backwards."""
        self._capacity, self._clock = capacity, clock
        self._origins: OrderedDict[SessionKey, _Origin] = OrderedDict()
        self._turned_away = 0
        self.bytes = 0

    def __len__(self) -> int:
        """Origins that something is known of."""
        return len(self._origins)

    def offer(self, key: SessionKey) -> ssl.SSLSession | None:
        """The session to resume at the origin, if there is a good one."""
        origin = self._origins.get(key)
        if origin is None:
            return None
        self._origins.move_to_end(key)
        if origin.session is not None and self._clock() >= origin.expires_at:
            self._drop_session(origin)
        return origin.session

    def settle(self, connection: TlsConnection) -> None:
        """Takes note of what came of a new connection, once something was read over it.

        Of TLS 1.3 the server sends its sessions after the handshake, along with what it answers.
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
        if origin.session is not offered:  # a later connection has replaced it already
            return
        if origin.uses == 0:
            self._resumes_nothing(origin)
        elif origin.uses == 1:
            origin.spent_once += 1
        self._drop_session(origin)

    def _resumes_nothing(self, origin: _Origin) -> None:
        origin.refused += 1
        origin.skip = min(_SKIPPED_MORE**origin.refused, _MOST_SKIPPED)

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
        """A place for an origin of which nothing is known yet; None where it is turned away."""
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
            _, oldest = self._origins.popitem(last=False)
            self.bytes -= oldest.size
