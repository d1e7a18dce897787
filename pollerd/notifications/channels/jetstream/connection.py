"""A client of NATS over one socket that was dialled through the guard: it dials nothing itself, and never again."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from socket import socket
from typing import Any

from nats.aio.client import Client, Srv
from nats.aio.transport import TcpTransport
from nats.errors import Error

from pollerd.notifications.channels.jetstream.credentials import parts_of, public_name, signature, signing_key

_BUFFER_BYTES = 32_768


class DialledTransport(TcpTransport):
    """A transport over a connected socket."""

    async def take(self, sock: socket) -> None:
        """Takes over the socket, which is closed with the transport."""
        reader, writer = await asyncio.open_connection(sock=sock, limit=_BUFFER_BYTES)
        self._bare_io_reader = self._io_reader = reader
        self._bare_io_writer = self._io_writer = writer


class DialledClient(Client):
    """The client of nats-py, which calls these methods where it would dial, and where the server announces others."""

    def __init__(self, sock: socket, *, encrypted: bool) -> None:
        """`encrypted`: nothing of ours is sent before TLS."""
        super().__init__()
        self._sock, self._encrypted = sock, encrypted
        self.complaint = ""
        """The latest of the server, which answers some requests by this alone."""

    async def _connect_to_server(self, s: Srv) -> None:
        transport = DialledTransport()  # type: ignore[no-untyped-call]
        await transport.take(self._sock)
        self._transport = transport

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        info.pop("connect_urls", None)
        if initial_connection and self._encrypted:
            if not info.get("tls_required") and not info.get("tls_available"):
                raise Error("the server offers no TLS, which the channel requires")
            info["tls_required"] = True
        await super()._process_info(info, initial_connection)

    async def complained(self, error: Exception) -> None:
        """Keeps what the server says apart from answers."""
        self.complaint = str(error)

    def introduce(self, nkey: str) -> None:
        """Says by which public key ("U…") the client logs in."""
        self._public_nkey = nkey

    def abandon(self) -> None:
        """Closes a connection that was not completed."""
        if self._transport is not None:
            self._transport.close()  # type: ignore[no-untyped-call]


async def log_in(
    client: DialledClient, host: str, username: str | None, secrets: Mapping[str, str], tls: ssl.SSLContext
) -> None:
    """Completes the connection. Raises `nats.errors.Error`, OSErrors and `ValueError`."""
    await client.connect(
        "nats://dialled.invalid:4222",
        name="pollerd",
        error_cb=client.complained,
        allow_reconnect=False,
        tls=tls,
        tls_hostname=host,
        **_credentials(client, username, secrets),
    )


def _credentials(client: DialledClient, username: str | None, secrets: Mapping[str, str]) -> dict[str, Any]:
    """Returns the arguments of `connect` by which the client logs in. Raises `ValueError` for damaged secrets."""
    if "password" in secrets:
        return {"user": username, "password": secrets["password"]}
    if "token" in secrets:
        return {"token": secrets["token"]}
    jwt, seed = None, secrets.get("seed")
    if "credentials" in secrets:
        parts = parts_of(secrets["credentials"])
        jwt, seed = (None, "") if parts is None else parts
    if seed is None:
        return {}
    key = signing_key(seed)
    if key is None:
        raise ValueError("the seed is damaged")
    given: dict[str, Any] = {"signature_cb": lambda nonce: signature(key, nonce)}
    if jwt is not None:
        written = bytearray(jwt.encode("ascii"))
        given["user_jwt_cb"] = lambda: written
    else:
        client.introduce(public_name(key))
    return given
