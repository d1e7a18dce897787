"""Settings of channels: what is refused, what is secret, and that secrets go nowhere else."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from typing import Any

import pytest

from pollerd.errors import InvalidValueError
from pollerd.notifications.channels.apprise import SCHEMES
from pollerd.notifications.channels.mail_settings import MailSettings
from pollerd.notifications.channels.settings import change_channel, complete_channel, parse_channel, shown_settings
from tests.support.process import environment

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()  # the same in every process of the tests
GOOD: dict[str, dict[str, Any]] = {
    "webhook": {"url": "https://a.example/x?t=sesame", "secret": SECRET, "headers": {"X-Key": "sesame"}},
    "email": {
        "host": "mail.example",
        "sender": "a@a.example",
        "recipients": ["b@b.example"],
        "username": "ann",
        "password": "sesame",
    },
    "nats": {"host": "nats.example", "subject": "pages", "token": "sesame"},
    "apprise": {"url": "ntfys://user:sesame@ntfy.example/topic"},
}
ELSEWHERE: dict[str, dict[str, Any]] = {
    "webhook": {"url": "https://b.example/x", "headers": ["x-key"]},
    "email": {"host": "mail.example", "security": "none", "sender": "a@a.example", "recipients": ["b@b.example"]},
    "nats": {"host": "other.example", "subject": "pages"},
    "apprise": {"service": "json"},
}


@pytest.mark.parametrize("kind", GOOD)
def test_secrets_are_parted_and_kept(kind: str) -> None:
    parsed = parse_channel(kind, GOOD[kind])
    shown = json.loads(json.dumps(shown_settings(parsed.settings)))
    for text in (repr(parsed), repr(parsed.settings), json.dumps(shown)):
        assert "sesame" not in text
        assert SECRET not in text
    again = parse_channel(kind, shown)
    assert again.settings == parsed.settings
    assert not again.secrets
    kept = change_channel(parsed, again)
    assert kept.secrets == parsed.secrets
    assert complete_channel(kept) == kept


@pytest.mark.parametrize("kind", GOOD)
def test_another_address_needs_the_secret_again(kind: str) -> None:
    old = parse_channel(kind, GOOD[kind])
    fields = {**ELSEWHERE[kind], **({"username": "ann"} if kind == "email" else {})}
    with pytest.raises(InvalidValueError, match="given again") as caught:
        change_channel(old, parse_channel(kind, fields))
    assert "sesame" not in str(caught.value)
    whole = parse_channel(
        kind,
        {
            **GOOD[kind],
            **(
                {}
                if kind == "apprise"
                else {
                    "url" if kind == "webhook" else "host": "https://c.example/?t=x"
                    if kind == "webhook"
                    else "c.example"
                }
            ),
        },
    )
    assert change_channel(old, whole) == whole


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        ("webhook", "url", "ftp://a.example"),
        ("webhook", "url", None),
        ("webhook", "url", "https://ann:sesame@a.example/"),
        ("webhook", "secret", "sesame"),
        ("webhook", "secret", "whsec_c2VzYW1l"),
        ("webhook", "previous_secret", SECRET),
        ("webhook", "headers", {"Host": "sesame"}),
        ("webhook", "headers", {"Webhook-Id": "sesame"}),
        ("webhook", "headers", {"Transfer-Encoding": "sesame"}),
        ("webhook", "headers", {"X": "sesame\r\nY: z"}),
        ("webhook", "headers", {"X": 1}),
        ("email", "recipients", []),
        ("email", "recipients", ["a@b\r\nRCPT TO:<c@d>"]),
        ("email", "recipients", "a@a.example b@b.example"),
        ("email", "recipients", ["Ann"]),
        ("email", "recipients", [f"{number}@a.example" for number in range(51)]),
        ("email", "sender", "a@a.example, b@b.example"),
        ("email", "port", 0),
        ("email", "port", True),
        ("email", "security", "startls"),
        ("email", "host", "a b"),
        ("email", "username", None),
        ("nats", "subject", "pages.>"),
        ("nats", "subject", "a b"),
        ("nats", "stream", "a.b"),
        ("nats", "seed", "SUsesame"),
        ("nats", "tls", "yes"),
        ("apprise", "url", "json://a b"),
        ("apprise", "url", "sesame"),
        ("apprise", "url", "slak://sesame/x"),
        ("apprise", "format", "htm"),
    ],
)
def test_what_is_refused_names_its_field(kind: str, field: str, value: object) -> None:
    given = {name: one for name, one in {**GOOD[kind], field: value}.items() if name != "token" or field != "seed"}
    with pytest.raises(InvalidValueError) as caught:
        parse_channel(kind, given)
    assert caught.value.field in (field, "previous_until")
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "recipients"),
    [
        (["Ann <a@a.example>", "b@b.example"], ("a@a.example", "b@b.example")),
        (['"Lee, Ann; B" <a@a.example>;b@b.example, a@a.example'], ("a@a.example", "b@b.example")),
        ("a@a.example , b@b.example;", ("a@a.example", "b@b.example")),
    ],
)
def test_addresses_as_mail_programs_write_them(given: object, recipients: tuple[str, ...]) -> None:
    settings = parse_channel("email", {**GOOD["email"], "sender": "Ann <a@a.example>", "recipients": given}).settings
    assert isinstance(settings, MailSettings)
    assert (settings.sender, settings.recipients) == ("a@a.example", recipients)


def test_unknown_services_are_refused_at_once() -> None:
    with pytest.raises(InvalidValueError, match=r"unknown service of Apprise 'slak'; did you mean slack\?"):
        parse_channel("apprise", {"url": "slak://sesame/x"})
    for kind in ("slack", "tgram", "Telegram"):
        with pytest.raises(InvalidValueError, match="is a service of Apprise: use kind apprise"):
            parse_channel(kind, {})
    assert parse_channel("apprise", {"url": "https://hooks.slack.com/services/sesame"}).secrets


def test_the_services_are_those_of_the_library() -> None:
    """In a process of its own: it loads them all."""
    code = "from apprise.manager_plugins import NotificationManager; print(*sorted(NotificationManager().schemas()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == sorted(SCHEMES)


def test_unknown_names() -> None:
    with pytest.raises(InvalidValueError, match="did you mean secret"):
        parse_channel("webhook", {"url": "https://a.example", "secrt": "x"})
    with pytest.raises(InvalidValueError, match="kind"):
        parse_channel("pager", {})


def test_what_no_channel_needs_is_not_loaded() -> None:
    code = (
        "import sys, pollerd.notifications.channels.settings; "
        "print(sorted({'apprise', 'nats', 'aiosmtplib', 'requests'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
