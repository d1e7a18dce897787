"""Settings of channels: parsed from plain objects, secrets apart."""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict
from yarl import URL

from pollerd.detection.selection.document import known_table, list_of, one_of, text, whole_number
from pollerd.detection.selection.values.nearest import with_nearest
from pollerd.errors import InvalidValueError
from pollerd.notifications.templates.rendering import check as check_template
from pollerd.urls import normalise_url

NOT_SHOWN = "(not shown)"
_MOST_SECRET = 4_096
_LONGEST_TEMPLATE = 20_000
_MOST_RECIPIENTS = 50
_ADDRESS = re.compile(r"[^\s@<>,;:\"\\\x00-\x1f]{1,64}@[^\s@<>,;:\"\\\x00-\x1f]{1,253}\Z")


class Common(Struct, frozen=True, kw_only=True):
    """What all kinds have."""

    per_minute: int = 30
    """Messages a minute at most."""
    group_from: int = 10
    """Events in a minute from which they are told together."""
    template: str = ""
    """Jinja2 template of the body; empty: the built-in message."""
    zone: str = "UTC"
    """In its time moments are shown."""


class WebhookSettings(Common, frozen=True, kw_only=True):
    """A webhook by the Standard Webhooks specification."""

    url: str
    previous_until: float | None = None
    """Until then (epoch s) messages are signed with the previous secret, too."""


class EmailSettings(Common, frozen=True, kw_only=True):
    """Mail by SMTP. `security`: starttls (required), tls (from the start), none."""

    host: str
    port: int
    sender: str
    recipients: tuple[str, ...]
    security: str = "starttls"
    username: str = ""


class NatsSettings(Common, frozen=True, kw_only=True):
    """A NATS JetStream subject. `stream`: the one expected to hold it; empty: any."""

    url: str
    subject: str
    stream: str = ""
    username: str = ""


class AppriseSettings(Common, frozen=True, kw_only=True):
    """A service by an Apprise URL, which is secret as a whole. `service`: the scheme of that URL."""

    service: str


ChannelSettings = WebhookSettings | EmailSettings | NatsSettings | AppriseSettings


class ParsedChannel(Struct, frozen=True):
    """A channel's settings, and its secrets by name."""

    settings: ChannelSettings
    secrets: Mapping[str, str]

    def shown(self) -> dict[str, Any]:
        """Returns the settings as JSON values; of secrets only the names."""
        return {**asdict(self.settings), "secrets": sorted(self.secrets)}


class KindOfChannel(Struct, frozen=True):
    """How one kind is parsed."""

    settings: type[Common]
    secrets: tuple[str, ...]
    address: tuple[str, ...]
    """Settings that say where messages go: with new ones secrets must be given anew."""
    check: Callable[[str, dict[str, Any], dict[str, str]], dict[str, Any]]
    """Returns the checked settings of its own; may add secrets that it makes."""


def parse_channel(
    kind: str, given: Mapping[str, Any], field: str = "channel", before: ParsedChannel | None = None
) -> ParsedChannel:
    """Returns the settings of a channel from a plain object in which settings and secrets stand side by side.

    before: the channel as it is; secrets that are not given stay, unless its address changes. Raises
    InvalidValueError with the place, what is allowed and what was given; never a secret.
    """
    form = KINDS.get(kind)
    if form is None:
        raise InvalidValueError(
            f"{field}.kind", with_nearest(f"one of {', '.join(KINDS)}", kind, tuple(KINDS)), kind[:100]
        )
    own = form.settings.__struct_fields__
    found = {
        name: value for name, value in known_table(field, given, (*own, *form.secrets)).items() if value is not None
    }
    secrets = {name: _secret(f"{field}.{name}", found.pop(name)) for name in form.secrets if name in found}
    values = {**_common(field, found), **form.check(field, found, secrets)}
    if before is not None and isinstance(before.settings, form.settings):
        _check_address(field, form, values, before, secrets)
        secrets = {**before.secrets, **secrets}
    return ParsedChannel(form.settings(**values), _complete(kind, secrets))  # type: ignore[arg-type]


def _check_address(
    field: str, form: KindOfChannel, values: Mapping[str, Any], before: ParsedChannel, secrets: Mapping[str, str]
) -> None:
    """Refuses to send kept secrets to a new address."""
    moved = [name for name in form.address if values.get(name) != getattr(before.settings, name)]
    missing = [name for name in before.secrets if name not in secrets]
    if moved and missing:
        allowed = f"given together with {', '.join(missing)}: a kept secret goes to no new address"
        raise InvalidValueError(f"{field}.{moved[0]}", allowed, values.get(moved[0]))


def _complete(kind: str, secrets: dict[str, str]) -> dict[str, str]:
    if kind == "webhook" and "secret" not in secrets:
        return {**secrets, "secret": new_webhook_secret()}
    return secrets


def new_webhook_secret() -> str:
    """Returns a new secret: 32 random bytes as Standard Webhooks writes them."""
    return f"whsec_{base64.b64encode(os.urandom(32)).decode()}"


def webhook_key(secret: str) -> bytes:
    """Returns the key that a secret stands for. Raises ValueError if it is none."""
    key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    if not 24 <= len(key) <= 64:
        raise ValueError("a key has 24 to 64 bytes")
    return key


# --- the kinds -------------------------------------------------------------------------------------------------------


def _common(field: str, found: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if "per_minute" in found:
        values["per_minute"] = whole_number(f"{field}.per_minute", found["per_minute"], 1, 6_000)
    if "group_from" in found:
        values["group_from"] = whole_number(f"{field}.group_from", found["group_from"], 2, 1_000)
    if found.get("template"):
        values["template"] = _template(f"{field}.template", found["template"])
    if "zone" in found:
        values["zone"] = _zone(f"{field}.zone", found["zone"])
    return values


def _template(field: str, given: object) -> str:
    from pollerd.notifications.templates.error import TemplateError

    source = text(field, given, _LONGEST_TEMPLATE)
    try:
        check_template(source)
    except TemplateError as error:
        raise InvalidValueError(field, f"a Jinja2 template ({error})", "(not shown)") from error
    return source


def _zone(field: str, given: object) -> str:
    from pollerd.scheduling.times.local_time import zone_of

    name = text(field, given)
    zone_of(name, field)
    return name


def _secret(field: str, given: object) -> str:
    if not isinstance(given, str) or not 0 < len(given) <= _MOST_SECRET or any(ord(c) < 32 for c in given):
        raise InvalidValueError(field, f"a text of 1 to {_MOST_SECRET} characters without line breaks", NOT_SHOWN)
    return given


def _needed(field: str, found: Mapping[str, Any], name: str) -> str:
    if name not in found:
        raise InvalidValueError(f"{field}.{name}", "given", None)
    return text(f"{field}.{name}", found[name])


def _optional(field: str, found: Mapping[str, Any], name: str) -> str:
    return text(f"{field}.{name}", found[name]) if name in found else ""


def _webhook(field: str, found: dict[str, Any], secrets: dict[str, str]) -> dict[str, Any]:
    given = _needed(field, found, "url")
    url = _web_url(f"{field}.url", given)
    for name in ("secret", "previous_secret"):
        if name in secrets:
            try:
                webhook_key(secrets[name])
            except (ValueError, binascii.Error) as error:
                allowed = "whsec_ and 24 to 64 random bytes in base64, or left out: one is made"
                raise InvalidValueError(f"{field}.{name}", allowed, NOT_SHOWN) from error
    if "authorization" in secrets and not secrets["authorization"].isascii():
        raise InvalidValueError(f"{field}.authorization", "ASCII characters", NOT_SHOWN)
    until = found.get("previous_until")
    return {"url": url, "previous_until": float(until) if isinstance(until, int | float) else None}


def _web_url(field: str, given: str) -> str:
    try:
        url = normalise_url(given)
        parsed = URL(url, encoded=True)
    except (InvalidValueError, ValueError) as error:
        raise InvalidValueError(field, "an http or https URL", given[:200]) from error
    if parsed.user or parsed.password:
        raise InvalidValueError(field, "a URL without user name and password (`authorization` is for these)", NOT_SHOWN)
    return url


def _email(field: str, found: dict[str, Any], secrets: dict[str, str]) -> dict[str, Any]:
    usual = {"starttls": 587, "tls": 465, "none": 25}
    security = one_of(f"{field}.security", found.get("security", "starttls"), usual)
    username = _optional(field, found, "username")
    if (username or "password" in secrets) and security == "none":
        allowed = "left out where security is none: the password would travel in the clear"
        raise InvalidValueError(f"{field}.username", allowed, username)
    given = list_of(f"{field}.recipients", found.get("recipients"), _MOST_RECIPIENTS, "mail addresses")
    recipients = tuple(_address(f"{field}.recipients[{place}]", one) for place, one in enumerate(given))
    return {
        "host": _host(f"{field}.host", _needed(field, found, "host")),
        "port": whole_number(f"{field}.port", found.get("port", usual[security]), 1, 65_535),
        "sender": _address(f"{field}.sender", _needed(field, found, "sender")),
        "recipients": recipients,
        "security": security,
        "username": username,
    }


def _host(field: str, given: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._:\[\]-]{1,253}", given):
        raise InvalidValueError(field, "the name or address of a server", given[:200])
    return given.strip("[]").lower()


def _address(field: str, given: object) -> str:
    found = text(field, given)
    if not _ADDRESS.match(found) or not found.isascii():
        raise InvalidValueError(field, "a mail address, as news@example.org", found[:200])
    return found


def _nats(field: str, found: dict[str, Any], secrets: dict[str, str]) -> dict[str, Any]:
    given = _needed(field, found, "url")
    try:
        url = URL(given)
        fits = url.scheme in ("nats", "tls") and bool(url.host) and url.path in ("", "/") and not url.query_string
    except ValueError:
        fits = False
    if not fits:
        raise InvalidValueError(f"{field}.url", "nats://HOST:PORT or tls://HOST:PORT", given[:200])
    if url.user or url.password:
        raise InvalidValueError(f"{field}.url", "a URL without user name and password (they have fields)", NOT_SHOWN)
    subject = _needed(field, found, "subject")
    if not re.fullmatch(r"[!-)+-=?-~]{1,200}", subject) or ".." in subject or subject[0] == "." or subject[-1] == ".":
        raise InvalidValueError(f"{field}.subject", "a NATS subject without wildcards", subject[:200])
    return {
        "url": f"{url.scheme}://{url.host}:{url.port or 4222}",
        "subject": subject,
        "stream": _optional(field, found, "stream"),
        "username": _optional(field, found, "username"),
    }


def _apprise(field: str, found: dict[str, Any], secrets: dict[str, str]) -> dict[str, Any]:
    from pollerd.notifications.channels.apprise_url import check_apprise_url

    if "url" not in secrets:
        return {"service": _optional(field, found, "service")}
    return {"service": check_apprise_url(f"{field}.url", secrets["url"])}


KINDS: Mapping[str, KindOfChannel] = {
    "webhook": KindOfChannel(WebhookSettings, ("secret", "previous_secret", "authorization"), ("url",), _webhook),
    "email": KindOfChannel(EmailSettings, ("password",), ("host", "port", "security"), _email),
    "nats": KindOfChannel(NatsSettings, ("password", "token", "nkey_seed"), ("url",), _nats),
    "apprise": KindOfChannel(AppriseSettings, ("url",), (), _apprise),
}
"""Kind of channel -> how it is parsed."""
