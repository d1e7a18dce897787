"""Examples of signal sources and signals."""

from __future__ import annotations

from typing import Any

_AT = "2026-01-31T12:00:00.000Z"
_SOURCE: dict[str, Any] = {
    "id": 2,
    "kind": "sitemap",
    "site_id": 7,
    "url": "https://example.org/sitemap.xml",
    "name": None,
    "hosts": "same",
    "origin": "api",
    "index_id": None,
    "created_at": "2026-01-01T00:00:00.000Z",
    "last_read_at": _AT,
    "last_signal_at": _AT,
    "signals": 1_204,
    "pages": 2_000,
    "last_detail": "3 signals of 2,000 URLs",
    "quality": {
        "recall": 0.61,
        "precision": 0.83,
        "false_rate": 1.4e-06,
        "delay": 240.0,
        "say": 0.97,
        "polls": 812.0,
        "in_words": "right in 83 of 100, tells of 61 of 100 changes, 4 min late; believed to 97%",
    },
    "hub": {
        "hub": "https://hub.example.net/",
        "topic": "https://example.org/sitemap.xml",
        "state": "active",
        "lease_ends_at": "2026-02-09T12:00:00.000Z",
        "last_received_at": _AT,
        "received": 31,
        "last_detail": "the hub verified it",
    },
}
_SIGNAL: dict[str, Any] = {
    "source_id": 2,
    "source": "https://example.org/sitemap.xml",
    "date": _AT,
    "signalled_at": _AT,
    "waiting": True,
    "signals": 4,
    "quality": None,
}

SIGNALS: dict[str, Any] = {
    "SignalSource": _SOURCE,
    "SignalSourceList": {"items": [_SOURCE], "next_cursor": None},
    "SiteSignalList": {"items": [_SIGNAL], "next_cursor": None},
    "ReportTaken": {"signals": 1, "ignored": 0},
}
"""Schema -> example."""
