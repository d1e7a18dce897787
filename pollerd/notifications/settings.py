"""Settings of notifications, and rules and channels of a configuration.

Settings of notifications that hold for the whole daemon.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import orjson
from yarl import URL

from pollerd.errors import InvalidValueError
from pollerd.masking import NOT_SHOWN
from pollerd.notifications.channels.webhook import WEBHOOK
from pollerd.notifications.rules import document_of, parse_rule
from pollerd.notifications.stored_channels import with_settings
from pollerd.storage.notification_values import ChannelSpec, Origin, RuleSpec


@dataclass(frozen=True, kw_only=True)
class NotificationSettings:
    """`public_url`: where users reach this daemon, for links in messages; None: messages have no links.

    Raises InvalidValueError for a URL that is none.
    """

    public_url: str | None = None
    allow_private_channels: bool = False
    """Whether channels may lead to private and loopback addresses."""
    ca_file: str | None = None
    contact: str | None = None
    proxy: str | None = field(default=None, repr=False)
    """As of `FetchSettings`."""

    def __post_init__(self) -> None:
        if self.public_url is None:
            return
        try:
            url = URL(self.public_url)
            fits = url.scheme in ("http", "https") and bool(url.host) and not url.query_string and not url.fragment
        except ValueError:
            fits = False
        if not fits:
            raise InvalidValueError("public_url", "an http or https URL without query", self.public_url[:200])

    @property
    def host(self) -> str:
        """Name of this daemon in mails: that of its public URL."""
        found = None if self.public_url is None else URL(self.public_url).raw_host
        return found or "pollerd.localhost"

    @property
    def base_url(self) -> str:
        """The public URL without a slash at its end; empty: there is none."""
        return (self.public_url or "").rstrip("/")


# Rules and channels for the database, of documents that users wrote: over REST, or in the configuration file.

Spec = TypeVar("Spec", ChannelSpec, RuleSpec)
_NO_SETTINGS = ("name", "kind", "enabled")


def rule_spec(document: Mapping[str, Any], origin: Origin = Origin.API) -> RuleSpec:
    """Returns a rule for the database from its document, checked. Raises InvalidValueError."""
    rule = parse_rule(dict(document))
    if rule.muted_until is not None:
        raise InvalidValueError("rule.muted_until", "left out: a rule is muted by a call of its own", rule.muted_until)
    settings = orjson.dumps(document_of(rule)).decode()
    return RuleSpec(rule.name, settings, enabled=rule.enabled, origin=origin)


def checked_name(name: object) -> str:
    """Returns the name of a channel. Raises InvalidValueError."""
    if not isinstance(name, str) or not 0 < len(name) <= 100 or not name.isprintable() or name != name.strip():
        allowed = "1 to 100 printable characters without white space around them"
        raise InvalidValueError("name", allowed, name[:100] if isinstance(name, str) else None)
    return name


def channels_of(given: Sequence[Mapping[str, Any]]) -> list[ChannelSpec]:
    """Returns the channels of the configuration file: name, kind and settings in one table each.

    Raises InvalidValueError, naming place and field; no name may stand twice.
    """
    return _listed("channels", given, _channel)


def rules_of(given: Sequence[Mapping[str, Any]]) -> list[RuleSpec]:
    """Returns the rules of the configuration file. Raises InvalidValueError, as `channels_of`."""
    return _listed("rules", given, lambda one: rule_spec(one, Origin.FILE))


def _listed(section: str, given: Sequence[Mapping[str, Any]], made: Callable[[Mapping[str, Any]], Spec]) -> list[Spec]:
    found: dict[str, Spec] = {}
    for place, one in enumerate(given):
        try:
            spec = made(one)
        except InvalidValueError as error:
            field = error.field.removeprefix("rule.")
            raise InvalidValueError(f"{section}[{place}].{field}", error.allowed, error.given) from error
        if spec.name in found:
            raise InvalidValueError(f"{section}[{place}].name", "no one's before it", spec.name)
        found[spec.name] = spec
    return list(found.values())


def _channel(given: Mapping[str, Any]) -> ChannelSpec:
    kind, enabled = given.get("kind"), given.get("enabled", True)
    if not isinstance(kind, str):
        raise InvalidValueError("kind", "webhook, email, nats or apprise", None)
    if not isinstance(enabled, bool):
        raise InvalidValueError("enabled", "true or false", None)
    if kind == WEBHOOK and "secret" not in given:
        allowed = "given, as secret_file or secret: nobody would be shown one that was made here"
        raise InvalidValueError("secret", allowed, NOT_SHOWN)
    spec = ChannelSpec(checked_name(given.get("name")), kind, enabled=enabled, origin=Origin.FILE)
    return with_settings(spec, {name: value for name, value in given.items() if name not in _NO_SETTINGS})
