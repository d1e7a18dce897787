"""Channels by NATS JetStream: a message is sent once a stream has acknowledged it.

Every attempt has the message's id and the subject as `Nats-Msg-Id`: a stream drops repeats within its window (two
minutes, unless configured otherwise), so a repeat after that is stored again. Two channels may publish to one stream.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from socket import socket
from typing import Any

from nats.aio.client import Client, Srv
from nats.aio.transport import TcpTransport
from nats.errors import AuthorizationError, ConnectionClosedError, Error, MaxPayloadError, NoRespondersError
from nats.errors import TimeoutError as NoAnswerError
from nats.js.api import PubAck
from nats.js.errors import APIError, NoStreamResponseError

from pollerd.fetching.guard import DIALLING_FAULTS, dial, why_not_dialled
from pollerd.notifications.channels.channel import (
    DEADLINE_SECONDS,
    ChannelEnvironment,
    detail_of,
    unanswered,
)
from pollerd.notifications.channels.jetstream_settings import (
    JetStreamSettings,
    parts_of,
    public_name,
    signature,
    signing_key,
)
from pollerd.notifications.message import AnswerKind, Message, Receipt
from pollerd.notifications.payload import events_carried, payload_of
from pollerd.texts import _

# A client of NATS over one socket that was dialled through the guard: it dials nothing itself, and never again.

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
                raise Error(_("the server offers no TLS, which the channel requires"))
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
        raise ValueError(_("the seed is damaged"))
    options: dict[str, Any] = {"signature_cb": lambda nonce: signature(key, nonce)}
    if jwt is not None:
        written = bytearray(jwt.encode("ascii"))
        options["user_jwt_cb"] = lambda: written
    else:
        client.introduce(public_name(key))
    return options


_ANSWER_SECONDS = 10.0
_TOO_LARGE = 10054
_REFUSALS = ("authorization violation", "authentication", "permissions violation", "authorization failed")


class JetStreamChannel:
    """One subject of one server; its connection is kept between messages. Secrets: one way to log in, or none."""

    def __init__(
        self, settings: JetStreamSettings, secrets: Mapping[str, str], environment: ChannelEnvironment
    ) -> None:
        self._settings, self._secrets, self._environment = settings, dict(secrets), environment
        self._client: DialledClient | None = None

    async def send(self, message: Message, now: float) -> Receipt:
        """Publishes the message's payload; see `MessageChannel`. `now` is not told."""
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                acknowledged = await self._publish(message)
        except (Error, *DIALLING_FAULTS) as error:
            complaint = "" if self._client is None else self._client.complaint
            await self.close()
            return self._answer_to(error, complaint)
        done = _("stored before") if acknowledged.duplicate else "stored"
        return Receipt(AnswerKind.SENT, None, detail_of(f"{done} in {acknowledged.stream}, {acknowledged.seq}"))

    def events_carried(self, message: Message) -> int:
        """Returns how many events the payload holds; see `MessageChannel`."""
        return events_carried(message, link=self._environment.link)

    async def close(self) -> None:
        """Ends the connection."""
        client, self._client = self._client, None
        if client is not None and not client.is_closed:
            await client.close()

    async def _publish(self, message: Message) -> PubAck:
        client = await self._connected()
        client.complaint = ""
        return await client.jetstream().publish(
            self._settings.subject,
            payload_of(message, link=self._environment.link),
            timeout=_ANSWER_SECONDS,
            stream=self._settings.stream,
            headers={"Nats-Msg-Id": f"{message.id}.{self._settings.subject}"},
        )

    async def _connected(self) -> DialledClient:
        if self._client is not None and self._client.is_connected:
            return self._client
        await self.close()
        settings = self._settings
        sock = await dial(self._environment.guard, settings.host, settings.port)
        client = DialledClient(sock, encrypted=settings.tls)
        try:
            await log_in(client, settings.host, settings.username, self._secrets, self._environment.tls)
        except BaseException:
            client.abandon()
            raise
        self._client = client
        return client

    def _answer_to(self, error: Exception, complaint: str) -> Receipt:
        """Returns what an error means. A missing stream may be made yet, and messages wait for it."""
        text = f"{error} {complaint}".lower()
        if isinstance(error, AuthorizationError) or any(word in text for word in _REFUSALS):
            return self._said(AnswerKind.REFUSED, complaint or str(error))
        if isinstance(error, MaxPayloadError) or (isinstance(error, APIError) and error.err_code == _TOO_LARGE):
            return self._said(AnswerKind.DEAD, _("the message is larger than the server takes"))
        if isinstance(error, NoStreamResponseError | NoRespondersError):
            return self._said(
                AnswerKind.RETRY, _("no stream takes the subject {subject}", subject=self._settings.subject)
            )
        if isinstance(error, APIError):
            return self._said(AnswerKind.RETRY, _("the stream refuses: {description}", description=error.description))
        if isinstance(error, NoAnswerError | TimeoutError):
            return self._said(AnswerKind.RETRY, _("no acknowledgement within the deadline"))
        if isinstance(error, ConnectionClosedError):
            return self._said(AnswerKind.RETRY, _("the server closed the connection"))
        if isinstance(error, Error):
            return self._said(AnswerKind.RETRY, str(error))
        kind, detail = why_not_dialled(error)
        return unanswered(kind, detail_of(detail, self._secrets.values()))

    def _said(self, kind: AnswerKind, text: str) -> Receipt:
        return Receipt(kind, None, detail_of(text, self._secrets.values()))
