"""What channels keep secret is in no log line, no delivery log and no answer, however sending ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import structlog

from pollerd.daemon.process import BlindCause, BlindPeriod
from tests.daemon.conftest import Start

SECRETS = (
    "querysecret-1",
    "headersecret-2",
    "whsec_" + "QUFB" * 11,
    "mailsecret-3",
    "natssecret-4",
    "urlsecret-5",
    "pathsecret-6",
)


@pytest.fixture
async def echo() -> AsyncIterator[str]:
    """A server that refuses: who asks by HTTP gets all back that was sent. Returns its address and port."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said = b""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.2):
                said = await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 503 Busy\r\nContent-Length: {len(said)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + said if said else b"554 not here\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


def channels(place: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """Returns a channel of each kind with a secret of every sort; name -> (kind, settings)."""
    query, header, key, mail, nats, url, path = SECRETS
    port = int(place.partition(":")[2])
    server = {"host": "127.0.0.1", "port": port}
    login = {"username": "u", "password": mail, "sender": "a@example.org", "recipients": ["b@example.org"]}
    hook = {"url": f"http://{place}/hook?key={query}", "headers": {"X-Key": header}, "secret": key}
    return {
        "hook": ("webhook", hook),
        "mail": ("email", {**server, **login, "security": "starttls"}),
        "nats": ("nats", {**server, "subject": "pages", "token": nats}),
        "chat": ("apprise", {"url": f"json://user:{url}@{place}/{path}"}),
    }


async def test_no_log_shows_what_channels_keep_secret(
    start: Start, echo: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with structlog.testing.capture_logs() as lines:
        async with start(private_channels=True) as running:
            control = running.control.notifications
            ids = {}
            for name, (kind, settings) in channels(echo).items():
                ids[name] = (await control.add_channel(name, kind, settings)).id
            rule = {"name": "all", "channels": list(ids), "events": ["daemon.blind", "channel.down"]}
            await control.add_rule(rule)
            running.daemon.parts.runtime.blindness.note(BlindPeriod(BlindCause.LINK, 2_000.0, 2_120.0))
            store = running.store.notifications
            async with asyncio.timeout(60):
                while {one.channel_id for one in (await store.log.attempts()).items} != set(ids.values()):
                    await asyncio.sleep(0.05)
            answers = [await control.try_channel(channel_id) for channel_id in ids.values()]
            attempts = (await store.log.attempts()).items
            rows = [await store.channels.get(channel_id) for channel_id in ids.values()]
            shown = [control.shown(row) for row in rows]
    assert len(attempts) >= 4
    assert all(one.outcome != "sent" and one.detail for one in attempts)
    told = [lines, attempts, answers, shown, [row.last_error for row in rows], capfd.readouterr()]
    text = json.dumps(told, default=repr)
    assert [secret for secret in SECRETS if secret in text] == []
