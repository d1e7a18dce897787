"""Publishes messages to NATS JetStream.

Publishes messages to NATS JetStream: done once a stream has acknowledged.

Every attempt has the message's id and the subject as `Nats-Msg-Id`: a stream drops what it has had within its window
(two minutes, unless it says another), so a repeat after that is stored again. Two channels may publish to one stream.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
import ssl
from collections.abc import Mapping
from socket import socket
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from msgspec import Struct
from nats.aio.client import Client, Srv
from nats.aio.transport import TcpTransport
from nats.errors import AuthorizationError, ConnectionClosedError, Error, MaxPayloadError, NoRespondersError
from nats.errors import TimeoutError as NoAnswerError
from nats.js.api import PubAck
from nats.js.errors import APIError, NoStreamResponseError

from pollerd.errors import InvalidValueError
from pollerd.fetching.guard import DIALLING_FAULTS, dial, why_not_dialled
from pollerd.masking import NOT_SHOWN
from pollerd.notifications.channels.channel import (
    DEADLINE_SECONDS,
    ChannelEnvironment,
    GivenFields,
    detail_of,
    unanswered,
)
from pollerd.notifications.messages import Answer, AnswerKind, Message
from pollerd.notifications.payload import events_carried, payload_of

# Keys of NATS users: seeds ("SU…") and credentials files, which hold a JWT and a seed.

SEED_ALLOWED = "the seed of a NATS user: 58 letters and digits that begin with SU"
CREDENTIALS_ALLOWED = "the text of a NATS credentials file, with a user's JWT and seed"
_MOST_CREDENTIALS = 32_768
_JWT = re.compile(r"-----BEGIN NATS USER JWT-----\s+([A-Za-z0-9_.-]+)\s+------END NATS USER JWT------")
_SEED = re.compile(r"-----BEGIN USER NKEY SEED-----\s+([A-Z2-7]+)\s+------END USER NKEY SEED------")
_SEED_PREFIX, _USER_PREFIX = 18 << 3, 20 << 3
_LENGTH = 2 + 32 + 2
"""Two bytes say what it is, then the key, then a checksum."""


class UserCredentials(NamedTuple):
    """What a credentials file holds."""

    jwt: str
    seed: str


def parts_of(text: str) -> UserCredentials | None:
    """Returns what a credentials file holds; None: it is not one."""
    text = text[: _MOST_CREDENTIALS + 1]
    jwt, seed = _JWT.search(text), _SEED.search(text)
    if len(text) > _MOST_CREDENTIALS or jwt is None or seed is None or signing_key(seed[1]) is None:
        return None
    return UserCredentials(jwt[1], seed[1])


def signing_key(seed: str) -> Ed25519PrivateKey | None:
    """Returns the key of a user's seed; None: it is not one."""
    try:
        raw = base64.b32decode(seed + "=" * (-len(seed) % 8))
    except (binascii.Error, ValueError):
        return None
    if len(raw) != _LENGTH or binascii.crc_hqx(raw[:-2], 0) != int.from_bytes(raw[-2:], "little"):
        return None
    if raw[0] & 0xF8 != _SEED_PREFIX or (raw[0] & 7) << 5 | raw[1] >> 3 != _USER_PREFIX:
        return None
    return Ed25519PrivateKey.from_private_bytes(raw[2:-2])


def public_name(key: Ed25519PrivateKey) -> str:
    """Returns the public key as NATS writes it ("U…")."""
    raw = bytes([_USER_PREFIX]) + key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    raw += binascii.crc_hqx(raw, 0).to_bytes(2, "little")
    return base64.b32encode(raw).decode("ascii").rstrip("=")


def signature(key: Ed25519PrivateKey, nonce: str) -> bytes:
    """Returns the answer to a server's nonce."""
    return base64.b64encode(key.sign(nonce.encode()))


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


# Settings of NATS JetStream.

JETSTREAM = "nats"
_KNOWN = ("host", "port", "tls", "subject", "stream", "username", "password", "token", "seed", "credentials")
_SECRETS = ("password", "token", "seed", "credentials")
_SUBJECT = re.compile(r"[^\s.*>]+(?:\.[^\s.*>]+)*")
_STREAM = re.compile(r"[^\s.*>/\\]{1,255}")
_SUBJECT_ALLOWED = "a NATS subject without wildcards and spaces, at most 255 characters"
_STREAM_ALLOWED = "the name of a stream: no spaces, dots, wildcards and slashes"


class JetStreamSettings(Struct, frozen=True):
    """The server and the subject that messages are published on."""

    host: str
    subject: str
    port: int = 4222
    tls: bool = False
    """Whether the connection must be encrypted; where it is, the certificate is verified."""
    stream: str | None = None
    """The stream that must take the message; None: whichever listens to the subject."""
    username: str | None = None

    def address(self) -> object:
        """Returns what secrets are given for: never for a connection less safe."""
        return (self.host, self.port, self.tls, self.username)

    def uses(self, secret: str, given: Mapping[str, str]) -> bool:
        """Returns whether a secret kept from before still serves, beside those that were given."""
        return not given and (secret != "password" or self.username is not None)


def jetstream_settings(given: Mapping[str, Any]) -> tuple[JetStreamSettings, dict[str, str]]:
    """Returns settings and secrets. Raises `InvalidValueError`."""
    fields = GivenFields(given, _KNOWN, _SECRETS)
    subject = fields.required("subject", _SUBJECT_ALLOWED, 255)
    stream = fields.text("stream", _STREAM_ALLOWED, 255)
    if not _SUBJECT.fullmatch(subject):
        fields.refuse("subject", _SUBJECT_ALLOWED)
    if stream is not None and not _STREAM.fullmatch(stream):
        fields.refuse("stream", _STREAM_ALLOWED)
    settings = JetStreamSettings(
        host=fields.host("host"),
        subject=subject,
        port=fields.port(4222),
        tls=fields.flag("tls", False),
        stream=stream,
        username=fields.text("username", "1 to 320 printable characters", 320),
    )
    return settings, _secrets(fields, settings)


def _secrets(fields: GivenFields, settings: JetStreamSettings) -> dict[str, str]:
    secrets = {
        name: value
        for name in ("password", "token", "seed")
        if (value := fields.text(name, "1 to 1,000 printable characters")) is not None
    }
    credentials = fields.raw("credentials")
    if credentials is not None:
        if not isinstance(credentials, str) or parts_of(credentials) is None:
            fields.refuse("credentials", CREDENTIALS_ALLOWED)
        secrets["credentials"] = credentials
    if len(secrets) > 1:
        raise InvalidValueError(sorted(secrets)[1], "given alone: one way to log in at a time", NOT_SHOWN)
    if "seed" in secrets and signing_key(secrets["seed"]) is None:
        fields.refuse("seed", SEED_ALLOWED)
    if "password" in secrets and settings.username is None:
        fields.refuse("username", "given with a password")
    return secrets


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

    async def send(self, message: Message, now: float) -> Answer:
        """Publishes the message's payload; see `MessageChannel`. `now` is not told."""
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                acknowledged = await self._publish(message)
        except (Error, *DIALLING_FAULTS) as error:
            complaint = "" if self._client is None else self._client.complaint
            await self.close()
            return self._answer_to(error, complaint)
        done = "stored before" if acknowledged.duplicate else "stored"
        return Answer(AnswerKind.SENT, None, detail_of(f"{done} in {acknowledged.stream}, {acknowledged.seq}"))

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

    def _answer_to(self, error: Exception, complaint: str) -> Answer:
        """Returns what an error means. A missing stream may be made yet, and messages wait for it."""
        said = f"{error} {complaint}".lower()
        if isinstance(error, AuthorizationError) or any(word in said for word in _REFUSALS):
            return self._said(AnswerKind.REFUSED, complaint or str(error))
        if isinstance(error, MaxPayloadError) or (isinstance(error, APIError) and error.err_code == _TOO_LARGE):
            return self._said(AnswerKind.DEAD, "the message is larger than the server takes")
        if isinstance(error, NoStreamResponseError | NoRespondersError):
            return self._said(AnswerKind.RETRY, f"no stream takes the subject {self._settings.subject}")
        if isinstance(error, APIError):
            return self._said(AnswerKind.RETRY, f"the stream refuses: {error.description}")
        if isinstance(error, NoAnswerError | TimeoutError):
            return self._said(AnswerKind.RETRY, "no acknowledgement within the deadline")
        if isinstance(error, ConnectionClosedError):
            return self._said(AnswerKind.RETRY, "the server closed the connection")
        if isinstance(error, Error):
            return self._said(AnswerKind.RETRY, str(error))
        kind, detail = why_not_dialled(error)
        return unanswered(kind, detail_of(detail, self._secrets.values()))

    def _said(self, kind: AnswerKind, text: str) -> Answer:
        return Answer(kind, None, detail_of(text, self._secrets.values()))
