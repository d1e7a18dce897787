"""NATS JetStream: acknowledged once, logged in by each way, and nothing dialled but what the guard allows."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import nats
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pollerd.errors import InvalidValueError
from pollerd.notifications.channels import jetstream as sending
from pollerd.notifications.channels.channel import ChannelEnvironment
from pollerd.notifications.channels.jetstream_settings import parts_of, public_name, signing_key
from pollerd.notifications.channels.settings import make_channel, parse_channel
from pollerd.notifications.message import AnswerKind, Receipt
from tests.fetching.conftest import Certificate, certificate
from tests.notifications.channels.messages import AT, MESSAGE, Environment, message
from tests.notifications.channels.nats_server import NatsServer, nats_server

__all__ = ["certificate"]

SEED = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"
NKEY = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"


def channel(server: NatsServer, environment: ChannelEnvironment, **given: Any) -> Any:
    fields = {"host": "127.0.0.1", "port": server.port, "subject": "pages.changed"}
    return make_channel(*parse_channel("nats", {**fields, **given}), environment)


async def test_a_message_is_stored_once(tmp_path: Path) -> None:
    async with nats_server(tmp_path) as server, Environment() as environment:
        await server.add_stream("PAGES", "pages.>")
        sender = channel(server, environment, stream="PAGES")
        assert await sender.send(MESSAGE, AT) == Receipt(AnswerKind.SENT, None, "stored in PAGES, 1")
        assert await sender.send(MESSAGE, AT) == Receipt(AnswerKind.SENT, None, "stored before in PAGES, 1")
        assert (await sender.send(message(id="event-2"), AT)).detail == "stored in PAGES, 2"
        await sender.close()
        assert (await sender.send(message(id="event-3"), AT)).detail == "stored in PAGES, 3"
        await server.stop()
        assert (await sender.send(message(id="event-4"), AT)).kind is AnswerKind.RETRY
        await server.start()
        assert (await sender.send(message(id="event-4"), AT)).detail == "stored in PAGES, 4"
        await sender.close()
        body, headers = await server.stored("PAGES", 1)
    assert (headers["Nats-Msg-Id"], headers["Nats-Expected-Stream"]) == ("event-1.pages.changed", "PAGES")
    assert json.loads(body)["type"] == "site.failing"


async def test_two_channels_of_a_stream_both_tell(tmp_path: Path) -> None:
    async with nats_server(tmp_path) as server, Environment() as environment:
        await server.add_stream("PAGES", "pages.>")
        for number, subject in enumerate(("pages.shop", "pages.news"), 1):
            sender = channel(server, environment, subject=subject)
            assert (await sender.send(MESSAGE, AT)).detail == f"stored in PAGES, {number}"
            await sender.close()


async def test_what_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with nats_server(tmp_path, "max_payload: 4096") as server, Environment() as environment:
        nowhere = channel(server, environment)
        answer = await nowhere.send(MESSAGE, AT)
        assert answer == Receipt(AnswerKind.RETRY, None, "no stream takes the subject pages.changed")
        await server.add_stream("PAGES", "pages.>")
        assert (await nowhere.send(MESSAGE, AT)).kind is AnswerKind.SENT
        elsewhere = channel(server, environment, stream="OTHERS")
        answer = await elsewhere.send(message(id="event-2"), AT)
        assert answer.kind is AnswerKind.RETRY
        assert "stream" in answer.detail
        events = MESSAGE.events * 40
        answer = await nowhere.send(message(id="event-3", events=events), AT)
        assert (answer.kind, "larger" in answer.detail) == (AnswerKind.DEAD, True)
        monkeypatch.setattr(sending, "_ANSWER_SECONDS", 0.2)
        listener = await nats.connect(f"nats://127.0.0.1:{server.port}")
        await listener.subscribe("silent")
        await listener.flush()
        silent = channel(server, environment, subject="silent")
        answer = await silent.send(MESSAGE, AT)
        assert (answer.kind, answer.detail) == (AnswerKind.RETRY, "no acknowledgement within the deadline")
        await listener.close()
        for one in (nowhere, elsewhere, silent):
            await one.close()


LOGINS = {
    "password": ('users: [{user: "ann", password: "sesame-1"}]', {"username": "ann", "password": "sesame-1"}),
    "token": ('token: "sesame-1"', {"token": "sesame-1"}),
    "seed": (f'users: [{{nkey: "{NKEY}"}}]', {"seed": SEED}),
}


@pytest.mark.parametrize("way", LOGINS)
async def test_logins(tmp_path: Path, way: str) -> None:
    config, login = LOGINS[way]
    other = Ed25519PrivateKey.from_private_bytes(b"7" * 32)
    wrong = {"seed": _seed(b"7" * 32)} if way == "seed" else {**login, way: "wrong-sesame"}
    assert public_name(other) != NKEY
    async with nats_server(tmp_path, f"authorization {{ {config} }}") as server, Environment() as environment:
        for given, kind in ((login, AnswerKind.RETRY), (wrong, AnswerKind.REFUSED), ({}, AnswerKind.REFUSED)):
            sender = channel(server, environment, **given)
            answer = await sender.send(MESSAGE, AT)
            assert answer.kind is kind, answer
            assert "sesame" not in answer.detail
            await sender.close()


def _seed(raw: bytes) -> str:
    import base64
    import binascii

    body = bytes([(18 << 3) | (20 << 3 >> 5), (20 << 3 & 31) << 3]) + raw
    return base64.b32encode(body + binascii.crc_hqx(body, 0).to_bytes(2, "little")).decode().rstrip("=")


async def test_a_user_who_may_not_publish_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "_ANSWER_SECONDS", 0.5)
    config = 'authorization { users: [{user: "ann", password: "x1234", permissions: {publish: "others"}}] }'
    async with nats_server(tmp_path, config) as server, Environment() as environment:
        sender = channel(server, environment, username="ann", password="x1234")
        answer = await sender.send(MESSAGE, AT)
        await sender.close()
    assert answer.kind is AnswerKind.REFUSED
    assert "ermissions" in answer.detail


async def test_tls_is_verified_and_required(tmp_path: Path, certificate: Certificate) -> None:
    pem = certificate.pem
    config = f'tls {{ cert_file: "{pem}", key_file: "{pem.with_name("key.pem")}" }}'
    async with nats_server(tmp_path, config) as server:
        async with Environment(ca_file=str(pem)) as environment:
            for tls in (True, False):
                sender = channel(server, environment, tls=tls)
                assert "no stream" in (await sender.send(MESSAGE, AT)).detail
                await sender.close()
            answer = await channel(server, environment, host="localhost").send(MESSAGE, AT)
            assert (answer.kind, "no stream" in answer.detail) == (AnswerKind.RETRY, False)
        async with Environment() as environment:
            answer = await channel(server, environment, tls=True).send(MESSAGE, AT)
            assert "ertificate" in answer.detail or "CERTIFICATE" in answer.detail
        await server.stop()
    async with nats_server(tmp_path) as server, Environment() as environment:
        answer = await channel(server, environment, tls=True, token="sesame").send(MESSAGE, AT)
        assert (answer.kind, "no TLS" in answer.detail) == (AnswerKind.RETRY, True)


async def test_addresses_that_the_server_announces_are_not_dialled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "_ANSWER_SECONDS", 0.5)
    connections = 0
    announced = json.dumps(
        {
            "server_id": "a",
            "version": "2.10.0",
            "headers": True,
            "max_payload": 1 << 20,
            "connect_urls": ["127.0.0.1:9", "203.0.113.9:4222"],
        }
    )

    async def announces(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        writer.write(f"INFO {announced}\r\n".encode())
        while line := await reader.readline():
            if line.startswith(b"PING"):
                writer.write(b"PONG\r\n" + f"INFO {announced}\r\n".encode())
            elif line.startswith((b"PUB", b"HPUB")):
                break
        writer.close()

    server = await asyncio.start_server(announces, "127.0.0.1", 0)
    async with server, Environment() as environment:
        sender = channel(NatsServer([], server.sockets[0].getsockname()[1]), environment)
        answer = await sender.send(MESSAGE, AT)
        await sender.close()
    assert (answer.kind, connections) == (AnswerKind.RETRY, 1)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "169.254.169.254"])
async def test_private_servers_need_the_option(host: str) -> None:
    connected = asyncio.Event()

    def accepted(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        writer.close()

    server = await asyncio.start_server(accepted, "127.0.0.1", 0)
    found = NatsServer([], server.sockets[0].getsockname()[1])
    async with server, Environment(allow_private=False) as environment:
        answer = await channel(found, environment, host=host).send(MESSAGE, AT)
    assert (answer.kind, connected.is_set()) == (AnswerKind.DEAD, False)
    assert "address" in answer.detail


async def test_a_server_that_never_speaks_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "DEADLINE_SECONDS", 0.3)
    left: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: left.append(writer), "127.0.0.1", 0)
    async with server, Environment() as environment:
        answer = await channel(NatsServer([], server.sockets[0].getsockname()[1]), environment).send(MESSAGE, AT)
    for writer in left:
        writer.close()
    assert (answer.kind, answer.detail) == (AnswerKind.RETRY, "no acknowledgement within the deadline")


def test_seeds_and_credentials() -> None:
    key = signing_key(SEED)
    assert key is not None
    assert public_name(key) == NKEY
    assert signing_key(SEED[:-1] + "A") is None
    assert signing_key("") is None
    text = (
        "-----BEGIN NATS USER JWT-----\neyJ0.eyJq.abc-_\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{SEED}\n------END USER NKEY SEED------\n"
    )
    assert parts_of(text) == ("eyJ0.eyJq.abc-_", SEED)
    parsed = parse_channel("nats", {"host": "nats.example", "subject": "a", "credentials": text})
    assert SEED not in repr(parsed)
    with pytest.raises(InvalidValueError, match=r"^credentials: must be [^;]*$"):
        parse_channel("nats", {"host": "nats.example", "subject": "a", "credentials": text[40:]})
