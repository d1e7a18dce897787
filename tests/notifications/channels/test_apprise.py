"""Apprise: real plugins under a socket spy, and hostile ones that are refused what they try."""

from __future__ import annotations

from typing import Any

import pytest

from pollerd.errors import InvalidValueError
from pollerd.notifications.channels.channel import ChannelEnvironment
from pollerd.notifications.channels.settings import make_channel, parse_channel
from pollerd.notifications.message import AnswerKind
from tests.fetching.conftest import Serve, serve
from tests.fetching.sites import message, says
from tests.notifications.channels.mailbox import mailbox
from tests.notifications.channels.messages import AT, MESSAGE, Environment

__all__ = ["serve"]

URLS = {
    "json": "json://user:sesame-1@{place}/path",
    "xml": "xml://{place}/path",
    "form": "form://{place}/path",
    "gotify": "gotify://{place}/AbcdefghijKlmno",
    "ntfy": "ntfy://{place}/topic",
    "mattermost": "mmost://{place}/3ccdd113474722377935511fc85d3dd4",
    "rocketchat": "rocket://user:passw0rd1@{place}/#general",
    "nextcloud": "ncloud://user:passw0rd1@{place}/ann",
    "home assistant": "hassio://{place}/accesstokenaccesstoken",
    "apprise api": "apprise://{place}/tokentokentoken",
}


def channel(url: str, environment: ChannelEnvironment, **given: Any) -> Any:
    return make_channel(*parse_channel("apprise", {"url": url, **given}), environment)


@pytest.mark.parametrize("service", URLS)
async def test_real_plugins(serve: Serve, service: str) -> None:
    site = await serve(
        says(
            message(
                "200 OK",
                "Content-Type: application/json",
                body=b'{"status": "success", "data": {"authToken": "a", "userId": "b"}}',
            )
        )
    )
    url = URLS[service].format(place=f"127.0.0.1:{site.port}")
    async with Environment() as environment:
        sender = channel(url, environment)
        answer = await sender.send(MESSAGE, AT)
        await sender.close()
    assert answer.kind is AnswerKind.SENT, answer
    assert site.seen
    async with Environment(allow_private=False) as environment:
        seen = len(site.seen)
        sender = channel(url, environment)
        answer = await sender.send(MESSAGE, AT)
        await sender.close()
    assert (answer.kind, len(site.seen)) == (AnswerKind.DEAD, seen), answer
    assert answer.detail == "loopback address 127.0.0.1, not reached without --allow-private-channels"


async def test_mail() -> None:
    async with mailbox() as box, Environment() as environment:
        url = f"mailto://127.0.0.1:{box.port}?from=a@example.org&to=b@example.org&smtp=127.0.0.1"
        sender = channel(url, environment)
        answer = await sender.send(MESSAGE, AT)
        await sender.close()
    assert answer.kind is AnswerKind.SENT, answer
    assert box.mails


async def test_failures_say_what_happened_without_secrets(serve: Serve) -> None:
    site = await serve(says(message("302 Found", "Location: http://169.254.169.254/latest")))
    down = await serve(says(message("503 Busy")))
    wrong = await serve(says(message("401 Unauthorized")))
    async with Environment() as environment:
        for one, kind in ((site, AnswerKind.RETRY), (down, AnswerKind.RETRY), (wrong, AnswerKind.REFUSED)):
            sender = channel(f"json://user:sesame-1@127.0.0.1:{one.port}/tokentoken", environment)
            answer = await sender.send(MESSAGE, AT)
            await sender.close()
            assert answer.kind is kind, answer
            assert answer.detail
            assert "sesame" not in answer.detail
            assert "tokentoken" not in answer.detail


@pytest.mark.parametrize("url", ["syslog://", "dbus://x", "windows://x", "rsyslog://127.0.0.1", "mqtt://127.0.0.1/x"])
def test_refused_services(url: str) -> None:
    with pytest.raises(InvalidValueError, match="url"):
        parse_channel("apprise", {"url": url if not url.endswith("//") else url + "x"})


@pytest.mark.parametrize(
    "option",
    [
        "optional=yes",
        "retry=3",
        "wait=2",
        "redirect=yes",
        "verify=no",
        "Verify=0",
        "cto=9",
        "rto=9",
        "overflow=split",
        "attach=/etc/passwd",
        "store=yes",
        "a=b;verify=no",
        "a?verify=no",
        "%76erify=no",
    ],
)
def test_refused_options(option: str) -> None:
    with pytest.raises(InvalidValueError, match="without the option") as caught:
        parse_channel("apprise", {"url": f"json://user:sesame-1@example.org/?{option}"})
    assert "sesame" not in str(caught.value)
