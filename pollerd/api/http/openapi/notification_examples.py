"""Examples of rules, channels and deliveries."""

from __future__ import annotations

from typing import Any

_AT = "2026-01-31T12:00:00.000Z"
_LATER = "2026-01-31T12:20:00.000Z"

PARAMETERS: dict[str, Any] = {
    "rule_id": 4,
    "channel_id": 2,
    "from_rules": True,
    "token": "gAAAAABqBEV8q1v0XkW1aN9sV8gjO3fZ7Qm2x0XkW1aN9sV8g",
    "channel": 2,
    "change": 42,
    "message": "evt_8d0e3f6f3a1b4c5d9e7f2a6b1c3d5e7f",
    "list_deliveries.state": "dead",
    "list_deliveries.cursor": "bm4xMDA",
    "list_attempts.cursor": "YW4xMDA",
}

_RULE: dict[str, Any] = {
    "id": 4,
    "name": "prices",
    "rule": {"name": "prices", "channels": ["hook"], "sites": {"tags": ["shop"]}},
    "enabled": True,
    "muted_until": None,
    "origin": "api",
    "created_at": _AT,
    "changed_at": _AT,
}
_QUEUE: dict[str, Any] = {"waiting": 3, "sending": 0, "dead": 1, "oldest": _AT}
_CHANNEL: dict[str, Any] = {
    "id": 2,
    "name": "hook",
    "kind": "webhook",
    "enabled": True,
    "settings": {"url": "https://example.org/hook", "secrets": ["secret"]},
    "origin": "api",
    "created_at": _AT,
    "changed_at": _AT,
    "paused_at": None,
    "paused_reason": "",
    "probe_at": None,
    "last_sent_at": _LATER,
    "last_error": "",
    "queue": _QUEUE,
    "not_fenced": None,
    "secret": None,
}
_DELIVERY: dict[str, Any] = {
    "id": 118,
    "event_id": "evt_8d0e3f6f3a1b4c5d9e7f2a6b1c3d5e7f",
    "kind": "site.changed",
    "at": _AT,
    "rule_id": 4,
    "channel_id": 2,
    "site_id": 7,
    "change_id": 42,
    "state": "sent",
    "due_at": _AT,
    "digest": "",
    "attempts": 1,
    "message_id": "evt_8d0e3f6f3a1b4c5d9e7f2a6b1c3d5e7f",
    "detail": "HTTP 200",
    "ended_at": _LATER,
}
_ATTEMPT: dict[str, Any] = {
    "id": 240,
    "at": _LATER,
    "channel_id": 2,
    "message_id": "evt_8d0e3f6f3a1b4c5d9e7f2a6b1c3d5e7f",
    "events": 1,
    "outcome": "sent",
    "status": 200,
    "detail": "HTTP 200",
    "duration": 0.12,
}

SCHEMAS: dict[str, Any] = {
    "Rule": _RULE,
    "RuleList": {"items": [_RULE], "next_cursor": None},
    "Queue": _QUEUE,
    "Channel": _CHANNEL,
    "ChannelList": {"items": [_CHANNEL], "next_cursor": None},
    "TestAnswer": {"outcome": "sent", "status": 200, "detail": "HTTP 200"},
    "Resent": {"resent": 2},
    "Delivery": _DELIVERY,
    "DeliveryList": {"items": [_DELIVERY], "next_cursor": None},
    "Attempt": _ATTEMPT,
    "AttemptList": {"items": [_ATTEMPT], "next_cursor": None},
}
"""Name of a schema -> an example."""
