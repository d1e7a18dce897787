"""Rules and channels for the database, made of documents that users wrote: over REST, or in the configuration file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import orjson

from pollerd.errors import InvalidValueError, refusal
from pollerd.masking import NOT_SHOWN, masked
from pollerd.notifications.channels.webhook import WEBHOOK
from pollerd.notifications.rules import document_of, parse_rule
from pollerd.notifications.stored_channels import with_settings
from pollerd.storage.notification_values import ChannelSpec, Origin, RuleSpec
from pollerd.texts import _

Spec = TypeVar("Spec", ChannelSpec, RuleSpec)
_NO_SETTINGS = ("name", "kind", "enabled")


def rule_spec(document: Mapping[str, Any], origin: Origin = Origin.API) -> RuleSpec:
    """Returns a rule for the database from its document, checked. Raises InvalidValueError."""
    rule = parse_rule(dict(document))
    if rule.muted_until is not None:
        raise refusal("rule.muted_until", _("a rule is muted by its own call, not here"))
    settings = orjson.dumps(document_of(rule)).decode()
    return RuleSpec(rule.name, settings, enabled=rule.enabled, origin=origin)


def checked_name(name: object) -> str:
    """Returns the name of a channel. Raises InvalidValueError."""
    if not isinstance(name, str) or not 0 < len(name) <= 100 or not name.isprintable() or name != name.strip():
        allowed = _("1 to 100 printable characters without white space around them")
        raise InvalidValueError("name", allowed, name[:100] if isinstance(name, str) else None)
    return name


def channels_of(tables: Sequence[Mapping[str, Any]]) -> list[ChannelSpec]:
    """Returns the channels of the configuration file: name, kind and settings in one table each.

    Raises InvalidValueError, naming place and field; no name may stand twice.
    """
    return _listed("channels", tables, _channel)


def rules_of(tables: Sequence[Mapping[str, Any]]) -> list[RuleSpec]:
    """Returns the rules of the configuration file. Raises InvalidValueError, as `channels_of`."""
    return _listed("rules", tables, lambda table: rule_spec(table, Origin.FILE))


def _listed(section: str, tables: Sequence[Mapping[str, Any]], made: Callable[[Mapping[str, Any]], Spec]) -> list[Spec]:
    specs: dict[str, Spec] = {}
    for place, table in enumerate(tables):
        try:
            spec = made(table)
        except InvalidValueError as error:
            field = error.field.removeprefix("rule.")
            raise error.of(f"{section}[{place}].{field}") from error
        if spec.name in specs:
            raise refusal(f"{section}[{place}].name", _("{spec!r} is listed twice", spec=masked(spec.name)))
        specs[spec.name] = spec
    return list(specs.values())


def _channel(fields: Mapping[str, Any]) -> ChannelSpec:
    kind, enabled = fields.get("kind"), fields.get("enabled", True)
    if not isinstance(kind, str):
        raise InvalidValueError("kind", _("webhook, email, nats or apprise"), None)
    if not isinstance(enabled, bool):
        raise InvalidValueError("enabled", _("true or false"), None)
    if kind == WEBHOOK and "secret" not in fields:
        allowed = _("given, as secret_file or secret: a secret that is made here would not be shown")
        raise InvalidValueError("secret", allowed, NOT_SHOWN)
    spec = ChannelSpec(checked_name(fields.get("name")), kind, enabled=enabled, origin=Origin.FILE)
    return with_settings(spec, {name: value for name, value in fields.items() if name not in _NO_SETTINGS})
