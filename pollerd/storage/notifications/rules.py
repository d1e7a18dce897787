"""Rules as rows, and which channels they name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from pollerd.errors import DuplicateError, InvalidValueError, NotFoundError
from pollerd.events import Incident
from pollerd.storage.db.schema.notifications import channel, incident, rule
from pollerd.storage.notifications.notification_values import Origin, RuleSpec, StoredRule


def all_rules(connection: Connection) -> list[StoredRule]:
    """Returns all rules, by id."""
    return [_rule(row) for row in connection.execute(select(rule).order_by(rule.c.id))]


def get_rule(connection: Connection, rule_id: int) -> StoredRule:
    """Returns the rule. Raises `NotFoundError`."""
    row = connection.execute(select(rule).where(rule.c.id == rule_id)).one_or_none()
    if row is None:
        raise NotFoundError("rule", rule_id)
    return _rule(row)


def find_rule(connection: Connection, name: str) -> StoredRule | None:
    """Returns the rule of this name."""
    row = connection.execute(select(rule).where(rule.c.name == name)).one_or_none()
    return None if row is None else _rule(row)


def add_rule(connection: Connection, spec: RuleSpec, now: float) -> StoredRule:
    """Adds a rule. Raises `DuplicateError`, and `InvalidValueError` if it names unknown channels."""
    _require_new_name(connection, spec.name)
    _require_channels(connection, spec)
    values = {**_values(spec), "created_at": now, "changed_at": now}
    new = connection.execute(insert(rule).values(values).returning(rule.c.id)).scalar_one()
    return get_rule(connection, new)


def update_rule(connection: Connection, rule_id: int, spec: RuleSpec, now: float) -> StoredRule:
    """Sets what a rule is. Raises as `add_rule` does, and `NotFoundError`."""
    if get_rule(connection, rule_id).spec.name != spec.name:
        _require_new_name(connection, spec.name)
    _require_channels(connection, spec)
    connection.execute(update(rule).where(rule.c.id == rule_id).values({**_values(spec), "changed_at": now}))
    return get_rule(connection, rule_id)


def mute_rule(connection: Connection, rule_id: int, until: float | None) -> StoredRule:
    """Mutes a rule until that time; None: no longer. Raises `NotFoundError`."""
    connection.execute(update(rule).where(rule.c.id == rule_id).values(muted_until=until))
    return get_rule(connection, rule_id)


def delete_rule(connection: Connection, rule_id: int) -> None:
    """Deletes a rule and its incidents. Raises `NotFoundError`."""
    connection.execute(delete(incident).where(incident.c.rule_id == rule_id))
    if not connection.execute(delete(rule).where(rule.c.id == rule_id)).rowcount:
        raise NotFoundError("rule", rule_id)


def incidents(connection: Connection) -> list[Incident]:
    """Returns the open incidents of all rules."""
    c = incident.c
    known = c.rule_id.in_(select(rule.c.id))
    wanted = select(c.rule_id, c.site_id, c.id, c.since).where(known).order_by(c.rule_id, c.site_id)
    return [Incident(*row) for row in connection.execute(wanted)]


def naming(connection: Connection, name: str) -> list[StoredRule]:
    """Returns the rules that name this channel."""
    return [one for one in all_rules(connection) if name in channels_of(one.spec)]


def rename(connection: Connection, old: str, new: str | None) -> None:
    """Puts another name of a channel into all rules, or takes it out."""
    for one in naming(connection, old):
        settings = json.loads(one.spec.settings)
        named = [new if name == old else name for name in settings["channels"]]
        settings["channels"] = [name for name in named if name is not None]
        connection.execute(update(rule).where(rule.c.id == one.id).values(settings=json.dumps(settings)))


def channels_of(spec: RuleSpec) -> Sequence[str]:
    """Returns the names of channels in the settings. Raises `InvalidValueError` if there can be none."""
    try:
        settings = json.loads(spec.settings)
        named = settings.get("channels", [])
    except (ValueError, AttributeError) as error:
        raise InvalidValueError("settings", "a JSON object", "(not shown)") from error
    if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
        raise InvalidValueError("channels", "a list of names", named)
    return named


def _require_channels(connection: Connection, spec: RuleSpec) -> None:
    known = set(connection.execute(select(channel.c.name)).scalars())
    unknown = [name for name in channels_of(spec) if name not in known]
    if unknown:
        there = ", ".join(sorted(known)) or "there are none"
        raise InvalidValueError("channels", f"names of channels ({there})", unknown[0])


def _require_new_name(connection: Connection, name: str) -> None:
    there = find_rule(connection, name)
    if there is not None:
        raise DuplicateError("rule", name, there.id)


def _values(spec: RuleSpec) -> dict[str, Any]:
    return {"name": spec.name, "settings": spec.settings, "enabled": spec.enabled, "origin": spec.origin.value}


def _rule(row: Any) -> StoredRule:
    spec = RuleSpec(row.name, row.settings, bool(row.enabled), Origin(row.origin))
    return StoredRule(row.id, spec, row.created_at, row.changed_at, row.muted_until)
