"""Webhooks: signed as the specification's own library verifies, sent once, and what each answer means."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import pytest
from standardwebhooks import Webhook as Verifier
from standardwebhooks import WebhookVerificationError

from pollerd.notifications.channels import webhook as sending
from pollerd.notifications.channels.channel import ChannelEnvironment
from pollerd.notifications.channels.settings import complete_channel, make_channel, parse_channel
from pollerd.notifications.channels.webhook import is_secret, new_secret
from pollerd.notifications.message import AnswerKind, Receipt
from tests.fetching.conftest import Certificate, Serve, certificate, serve
from tests.fetching.sites import Seen, message, says, says_and_closes
from tests.notifications.channels.messages import AT, MESSAGE, Environment
from tests.notifications.channels.messages import message as told

__all__ = ["certificate", "serve"]

SECRET, OLD = new_secret(), new_secret()


async def sent(environment: ChannelEnvironment, url: str, now: float = AT, **given: Any) -> Receipt:
    settings, secrets = parse_channel("webhook", {"url": url, "secret": SECRET, **given})
    return await make_channel(settings, secrets, environment).send(MESSAGE, now)


def verified(seen: Seen, secret: str) -> Any:
    """Verifies as the specification's library does, but for the time of the signature."""
    at = datetime.fromtimestamp(int(seen.headers["webhook-timestamp"]), tz=UTC)
    library = Verifier(secret)
    signature = library.sign(seen.headers["webhook-id"], at, seen.body.decode())
    assert signature in seen.headers["webhook-signature"].split(" ")
    return json.loads(seen.body)


async def test_the_specifications_library_verifies(serve: Serve) -> None:
    site = await serve(says(message("200 OK")))
    now = datetime.now(UTC).timestamp()
    async with Environment() as environment:
        for at in (now, now - 1):
            answer = await sent(environment, site.url("/hook?token=abc"), at)
            assert answer == Receipt(AnswerKind.SENT, 200, "HTTP status 200")
    for seen in site.seen:
        body = Verifier(SECRET).verify(seen.body, seen.headers)
        assert (body["type"], body["data"]["site"]["id"]) == ("site.failing", 7)
        assert (seen.method, seen.path, seen.headers["content-type"]) == ("POST", "/hook?token=abc", "application/json")
        assert seen.headers["webhook-id"] == "event-1"
        with pytest.raises(WebhookVerificationError):
            Verifier(OLD).verify(seen.body, seen.headers)
    assert len({seen.headers["webhook-signature"] for seen in site.seen}) == 2
    assert site.connections == 1


async def test_both_secrets_sign_until_the_old_one_ends(serve: Serve) -> None:
    site = await serve(says(message("204 No Content", length=False)))
    async with Environment() as environment:
        for now in (AT, AT + 100):
            await sent(environment, site.url(), now, previous_secret=OLD, previous_until=AT + 50)
    assert verified(site.seen[0], SECRET) == verified(site.seen[0], OLD)
    assert verified(site.seen[1], SECRET)
    with pytest.raises(AssertionError):
        verified(site.seen[1], OLD)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        *((status, AnswerKind.SENT) for status in (200, 201, 202, 204)),
        *((status, AnswerKind.DEAD) for status in (301, 308, 400, 402, 404, 405, 413, 422, 451)),
        *((status, AnswerKind.REFUSED) for status in (401, 403, 410)),
        *((status, AnswerKind.RETRY) for status in (300, 302, 303, 304, 307, 408, 425, 429, 500, 502, 503, 504)),
    ],
)
async def test_what_a_status_means(serve: Serve, status: int, kind: AnswerKind) -> None:
    site = await serve(says(message(f"{status} Some", "Location: /elsewhere", length=status not in (204, 304))))
    async with Environment() as environment:
        answer = await sent(environment, site.url())
    assert (answer.kind, answer.status) == (kind, status)
    assert len(site.seen) == 1


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120.0),
        (format_datetime(datetime.fromtimestamp(AT + 60, tz=UTC), usegmt=True), 60.0),
        (format_datetime(datetime.fromtimestamp(AT - 60, tz=UTC), usegmt=True), 0.0),
        ("1000000000", 1e9),
        ("-5", None),
        ("soon", None),
    ],
)
async def test_retry_after(serve: Serve, value: str, seconds: float | None) -> None:
    site = await serve(says(message("429 Too Many Requests", f"Retry-After: {value}", body=b"slow\r\ndown")))
    async with Environment() as environment:
        answer = await sent(environment, site.url())
    assert answer == Receipt(AnswerKind.RETRY, 429, "HTTP status 429: slow down", seconds)


async def test_a_receiver_that_stalls_or_drips_is_left(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "DEADLINE_SECONDS", 1.5)

    async def drips(seen: Seen, writer: asyncio.StreamWriter) -> None:
        if seen.path == "/head":
            head = b"HTTP/1.1 200 OK\r\nX-Drip: "
        elif seen.path == "/body":
            head = b"HTTP/1.1 503 Busy\r\nRetry-After: 9\r\nContent-Length: 100000\r\n\r\n"
        else:
            await asyncio.sleep(3600)
        for byte in head + b"x" * 1000:
            writer.write(bytes([byte]))
            if byte == ord("x"):
                await asyncio.sleep(0.01)

    site = await serve(drips)
    async with Environment() as environment:
        for path in ("/never", "/head"):
            answer = await sent(environment, site.url(path))
            assert (answer.kind, answer.status) == (AnswerKind.RETRY, None)
            assert "1.5 s" in answer.detail
        answer = await sent(environment, site.url("/body"))
        assert (answer.kind, answer.status, answer.retry_after) == (AnswerKind.RETRY, 503, 9.0)


async def test_long_answers_are_cut_and_secrets_in_them_replaced(serve: Serve) -> None:
    said = f"no {SECRET} Bearer sesame-sesame tok-tok-tok ".encode() + b"x" * 10_000_000
    site = await serve(says(message("400 Bad Request", body=said)))
    headers = {"Authorization": "Bearer sesame-sesame"}
    async with Environment() as environment:
        answer = await sent(environment, site.url("/?token=tok-tok-tok"), headers=headers)
    assert (answer.kind, len(answer.detail)) == (AnswerKind.DEAD, 500)
    assert answer.detail.startswith("HTTP status 400: no … … … xxx")
    assert site.seen[0].headers["authorization"] == "Bearer sesame-sesame"


async def test_lost_and_refused_connections_are_tried_later(serve: Serve, certificate: Certificate) -> None:
    site = await serve(says_and_closes(b""))
    stranger = await serve(says(message("200 OK")), certificate.server)
    async with Environment() as environment:
        lost = await sent(environment, site.url())
        untrusted = await sent(environment, stranger.url())
        nobody = await sent(environment, "http://127.0.0.1:9/")
        no_name = await sent(environment, "http://nobody.invalid/")
    async with Environment(ca_file=str(certificate.pem)) as environment:
        stranger.host = "localhost"
        wrong_name = await sent(environment, stranger.url())
    for answer in (lost, untrusted, nobody, no_name, wrong_name):
        assert (answer.kind, answer.status) == (AnswerKind.RETRY, None)
        assert answer.detail
    assert "certificate" in untrusted.detail
    assert len(site.seen) == 1
    assert not stranger.seen


async def test_a_kept_connection_that_was_closed_is_replaced_at_once(serve: Serve) -> None:
    async def once(seen: Seen, writer: asyncio.StreamWriter) -> None:
        if len(site.seen) == 2:
            writer.close()
        else:
            await says(message("200 OK"))(seen, writer)

    site = await serve(once)
    async with Environment() as environment:
        for _ in range(2):
            assert (await sent(environment, site.url())).kind is AnswerKind.SENT
    assert (len(site.seen), site.connections) == (3, 2)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "169.254.169.254", "[::1]", "2130706433"])
async def test_private_receivers_need_the_option(host: str) -> None:
    async with Environment(allow_private=False) as environment:
        answer = await sent(environment, f"http://{host}:9/")
    assert answer.kind is AnswerKind.DEAD
    assert "address" in answer.detail


async def test_metadata_stays_closed() -> None:
    async with Environment() as environment:
        answer = await sent(environment, "http://169.254.169.254/latest")
    assert "cloud metadata" in answer.detail


async def test_a_secret_is_made_where_none_is_given(serve: Serve) -> None:
    site = await serve(says(message("200 OK")))
    parsed = complete_channel(parse_channel("webhook", {"url": site.url()}))
    assert is_secret(parsed.secrets["secret"])
    async with Environment() as environment:
        channel = make_channel(*parsed, environment)
        await channel.send(told(text="\ud800 half"), AT)
        await channel.close()
    assert verified(site.seen[0], parsed.secrets["secret"])
