"""NATS JetStream: each message is acknowledged by a stream, which drops repeats within its window."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import Any

import nats
from nats.errors import Error as NatsError
from nats.js.errors import APIError, NoStreamResponseError
from yarl import URL

from pollerd.fetching import DENIED_ERRNO, FetchSettings, Guard, allowed_addresses, one_line
from pollerd.notifications.channels.settings import NatsSettings
from pollerd.notifications.message import Answer, AnswerKind, Message
from pollerd.notifications.messages.payload import payload_of

DEADLINE_SECONDS = 20.0
_ACK_SECONDS = 10.0
_REFUSALS = ("authorization", "authentication", "permissions")


class NatsChannel:
    """Publishes to one subject, a connection a message.

    Only the address that the guard allowed is dialled: servers that the broker announces are ignored, and a lost
    connection is not opened again by the library.
    """

    def __init__(
        self, settings: NatsSettings, secrets: Mapping[str, str], fetching: FetchSettings, overview_url: str = ""
    ) -> None:
        self._settings, self._secrets, self._overview_url = settings, secrets, overview_url
        self._guard, self._ca_file = Guard(fetching.allow_private), fetching.ca_file

    async def send(self, message: Message, now: float) -> Answer:
        """Publishes once, with the message's id as `Nats-Msg-Id`. now: epoch s."""
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                return await self._send(message)
        except NoStreamResponseError:
            detail = f"no stream listens to {self._settings.subject}"
            return Answer(AnswerKind.RETRY, detail=detail)
        except APIError as error:
            return Answer(AnswerKind.RETRY, error.code, self._said(error))
        except (TimeoutError, NatsError, OSError, ValueError) as error:
            said = self._said(error)
            refused = any(word in said.lower() for word in _REFUSALS)
            return Answer(AnswerKind.REFUSED if refused else AnswerKind.RETRY, detail=said)

    async def close(self) -> None:
        """Nothing is kept between messages."""

    async def _send(self, message: Message) -> Answer:
        client = await nats.connect(**await self._options())
        try:
            acknowledged = await client.jetstream().publish(
                self._settings.subject,
                payload_of(message, link=self._overview_url),
                timeout=_ACK_SECONDS,
                stream=self._settings.stream or None,
                headers={"Nats-Msg-Id": message.id},
            )
        finally:
            await client.close()
        again = ", which had it already" if acknowledged.duplicate else ""
        return Answer(AnswerKind.SENT, detail=f"stream {acknowledged.stream}, message {acknowledged.seq}{again}")

    async def _options(self) -> dict[str, Any]:
        """Returns the arguments of a connection to an address that the guard allows. Raises OSErrors."""
        url = URL(self._settings.url)
        host, port = url.host or "", url.port or 4222
        address = str((await allowed_addresses(self._guard, host, port))[0][4][0])
        shown = f"[{address}]" if ":" in address else address
        options: dict[str, Any] = {
            "servers": f"nats://{shown}:{port}",
            "allow_reconnect": False,
            "max_reconnect_attempts": 0,
            "connect_timeout": _ACK_SECONDS,
            "no_echo": True,
            "error_cb": _ignored,
        }
        if url.scheme == "tls":
            context = ssl.create_default_context(cafile=None)
            if self._ca_file is not None:
                context.load_verify_locations(cafile=self._ca_file)
            options |= {"tls": context, "tls_hostname": host}
        return options | self._credentials()

    def _credentials(self) -> dict[str, Any]:
        secrets, found = self._secrets, dict[str, Any]()
        if self._settings.username:
            found |= {"user": self._settings.username, "password": secrets.get("password", "")}
        if "token" in secrets:
            found["token"] = secrets["token"]
        if "nkey_seed" in secrets:
            found["nkeys_seed_str"] = secrets["nkey_seed"]
        return found

    def _said(self, error: BaseException) -> str:
        if isinstance(error, OSError) and error.errno == DENIED_ERRNO:
            return one_line(str(error.strerror))
        text = str(error) or type(error).__name__
        for secret in self._secrets.values():
            text = text.replace(secret, "***")
        return one_line(text)


async def _ignored(_: Exception) -> None:
    """What goes wrong is raised where it is awaited."""
