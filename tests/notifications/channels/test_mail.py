"""E-mail: what it looks like, how it is sent, and what each refusal means."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pollerd.notifications.channels import mail as sending
from pollerd.notifications.channels.channel import ChannelEnvironment
from pollerd.notifications.channels.settings import make_channel, parse_channel
from pollerd.notifications.message import AnswerKind, Receipt
from tests.fetching.conftest import Certificate, Serve, certificate, serve
from tests.fetching.sites import Seen
from tests.notifications.channels.mailbox import Mailbox, mailbox
from tests.notifications.channels.messages import AT, MESSAGE, Environment, message

__all__ = ["certificate", "serve"]

ANN, BOB, CY = "ann@example.org", "bob@example.org", "cy@example.org"
UNSUBSCRIBE = "https://pollerd.example/unsubscribe/" + "t" * 120


def channel(box: Mailbox, environment: ChannelEnvironment, *to: str, **given: Any) -> Any:
    fields = {"host": "127.0.0.1", "port": box.port, "security": "none", "sender": "pollerd@example.org"}
    parsed = parse_channel("email", {**fields, "recipients": list(to or (ANN,)), **given})
    return make_channel(*parsed, environment)


async def test_both_texts_and_headers() -> None:
    async with mailbox() as box, Environment() as environment:
        sender = channel(box, environment)
        told = message(unsubscribe_url=UNSUBSCRIBE)
        assert await sender.send(told, AT) == Receipt(AnswerKind.SENT, 250)
        assert await sender.send(told, AT) == Receipt(AnswerKind.SENT, 250)
        await sender.send(message(id="event-2"), AT)
    assert box.mails[0] == box.mails[1]
    first, other = box.parsed(0), box.parsed(2)
    text, html = first.iter_parts()
    assert (first.get_content_type(), text.get_content_type(), html.get_content_type()) == (
        "multipart/alternative",
        "text/plain",
        "text/html",
    )
    assert text.get_content().replace("\r\n", "\n") == MESSAGE.text + "\n"
    assert MESSAGE.html in html.get_content()
    assert first["Subject"] == MESSAGE.subject
    assert first["Message-ID"].endswith("@pollerd.example>")
    assert first["Message-ID"] != other["Message-ID"]
    assert first["References"] == first["In-Reply-To"] == other["References"]
    assert first["References"] != first["Message-ID"]
    assert first["List-Id"] == "<alerts.pollerd.example>"
    assert f"List-Unsubscribe: <{UNSUBSCRIBE}>\r\n".encode() in box.mails[0][1]
    assert first["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    assert "List-Unsubscribe" not in other
    assert first["Auto-Submitted"] == "auto-generated"
    assert first["Date"] == "Wed, 25 Nov 2026 08:00:00 +0000"


@pytest.mark.parametrize(
    "subject",
    [
        "a\r\nBcc: victim@example.org",
        "a\nBcc: victim@example.org\n\nbody",
        "\u202egnp.exe\u2028Bcc: x\u2029y\u0085z\x00\x0b",
        "é" * 3_000,
        "x" * 3_000,
        "\ud800 half",
        "",
        "=?utf-8?q?Bcc?=: x",
    ],
)
async def test_no_title_makes_a_header(subject: str) -> None:
    html = "<p>" + "ä" * 5_000 + "\r" + "\ud800</p>"
    told = message(subject=subject, text="x" * 2_000 + "\r\r\n.\r\n\x00\ud800", html=html, id=f"id {subject}")
    async with mailbox() as box, Environment() as environment:
        answer = await channel(box, environment).send(told, AT)
        assert answer.kind is AnswerKind.SENT
    mail = box.parsed()
    assert "Bcc" not in mail
    assert len(mail["Subject"]) <= 200
    assert not {"\u202e", "\u2028", "\n"} & set(mail["Subject"])
    assert len(list(mail.iter_parts())) == 2
    assert max(len(line) for line in box.mails[0][1].split(b"\r\n")) <= 998
    assert box.mails[0][1].isascii()
    assert box.mails[0][0] == [ANN]


async def test_starttls_and_tls_with_a_login(certificate: Certificate) -> None:
    def one_user(box: Mailbox) -> None:
        box.users = {b"ann": b"sesame"}

    login = {"username": "ann", "password": "sesame"}
    async with Environment(ca_file=str(certificate.pem)) as environment:
        for security in ("starttls", "tls"):
            implicit = security == "tls"
            async with mailbox(certificate.server, implicit=implicit, behave=one_user) as box:
                answer = await channel(box, environment, security=security, **login).send(MESSAGE, AT)
                assert answer.kind is AnswerKind.SENT
                wrong = {**login, "password": "wrong-sesame"}
                answer = await channel(box, environment, security=security, **wrong).send(MESSAGE, AT)
                assert (answer.kind, answer.status) == (AnswerKind.REFUSED, 535)
                assert "sesame" not in answer.detail
                nobody = await channel(box, environment, security=security, host="localhost").send(MESSAGE, AT)
                assert (nobody.kind, len(box.mails)) == (AnswerKind.RETRY, 1)  # the certificate is another host's
    async with mailbox(certificate.server) as box, Environment() as environment:
        answer = await channel(box, environment, security="starttls").send(MESSAGE, AT)
        assert (answer.kind, box.mails) == (AnswerKind.RETRY, [])
        assert "ertificate" in answer.detail or "CERTIFICATE" in answer.detail


async def test_nothing_is_sent_in_the_open_unless_that_was_said() -> None:
    async with mailbox() as box, Environment() as environment:
        answer = await channel(box, environment, security="starttls").send(MESSAGE, AT)
        assert (answer.kind, box.mails) == (AnswerKind.RETRY, [])
        assert "STARTTLS" in answer.detail
        assert (await channel(box, environment, security="none").send(MESSAGE, AT)).kind is AnswerKind.SENT


async def test_recipients_that_were_refused_for_now_are_tried_again_alone() -> None:
    def refusing(box: Mailbox) -> None:
        box.recipients = {BOB: "450 busy", CY: "550 no such user"}

    async with mailbox(behave=refusing) as box, Environment() as environment:
        sender = channel(box, environment, ANN, BOB, CY)
        answer = await sender.send(MESSAGE, AT)
        assert answer == Receipt(AnswerKind.RETRY, 450, f"refused for {BOB}: 450 busy")
        box.recipients.pop(BOB)
        answer = await sender.send(MESSAGE, AT + 60)
        assert answer == Receipt(AnswerKind.SENT, 250, f"refused for {CY}: 550 no such user")
        assert [to for to, _ in box.mails] == [[ANN], [BOB]]
        assert box.parsed(0)["Message-ID"] == box.parsed(1)["Message-ID"]
        answer = await channel(box, environment, CY).send(MESSAGE, AT)
        assert (answer.kind, answer.status) == (AnswerKind.DEAD, 550)


@pytest.mark.parametrize(
    ("sender", "data", "kind", "status"),
    [
        ("", "451 later", AnswerKind.RETRY, 451),
        ("", "554 looks like spam", AnswerKind.DEAD, 554),
        ("421 going down", "250 ok", AnswerKind.RETRY, 421),
        ("552 too big", "250 ok", AnswerKind.DEAD, 552),
        ("530 log in first", "250 ok", AnswerKind.REFUSED, 530),
    ],
)
async def test_refusals(sender: str, data: str, kind: AnswerKind, status: int) -> None:
    def refusing(box: Mailbox) -> None:
        box.sender, box.data = sender, data

    async with mailbox(behave=refusing) as box, Environment() as environment:
        answer = await channel(box, environment).send(MESSAGE, AT)
    assert (answer.kind, answer.status) == (kind, status)


async def test_a_repeat_after_a_lost_answer_has_the_same_id() -> None:
    async with mailbox() as box, Environment() as environment:
        box.drop_after_data = True
        sender = channel(box, environment)
        assert (await sender.send(MESSAGE, AT)).kind is AnswerKind.RETRY
        box.drop_after_data = False
        assert (await sender.send(MESSAGE, AT + 5)).kind is AnswerKind.SENT
    assert box.parsed(0)["Message-ID"] == box.parsed(1)["Message-ID"]


async def test_a_server_that_stalls_is_left(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "DEADLINE_SECONDS", 0.3)

    async def stalls(_: Seen, __: asyncio.StreamWriter) -> None:
        """Never called: a client of SMTP waits for the server to speak."""

    site = await serve(stalls)
    async with Environment() as environment:
        answer = await channel(Mailbox(site.port), environment).send(MESSAGE, AT)
    assert answer.kind is AnswerKind.RETRY
    assert site.connections == 1


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "169.254.169.254", "::1"])
async def test_private_servers_need_the_option(host: str) -> None:
    async with mailbox() as box, Environment(allow_private=False) as environment:
        answer = await channel(box, environment, host=host).send(MESSAGE, AT)
    assert (answer.kind, box.connections) == (AnswerKind.DEAD, 0)
    assert "address" in answer.detail
