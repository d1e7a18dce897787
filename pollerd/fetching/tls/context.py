"""TLS to servers: trust, and session resumption.

asyncio and uvloop do not support sessions, but both ask the context to wrap each connection: there it looks up the
server's last session.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from contextvars import ContextVar
from typing import cast

from pollerd.errors import InvalidValueError
from pollerd.fetching.tls.sessions import Destination, SessionCache, SessionKey, TlsConnection

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
                raise InvalidValueError("ca_file", "a readable PEM file of certificates", ca_file) from error
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
    found = None if transport is None else transport.get_extra_info("ssl_object")
    return found if isinstance(found, TlsConnection) else None
