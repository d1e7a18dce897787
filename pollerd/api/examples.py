"""Examples of the OpenAPI document; a test validates each against its schema."""

from __future__ import annotations

from typing import Any

from pollerd.site_settings import INHERITED

# Examples of users, sessions and tokens.

_AT = "2026-01-31T12:00:00.000Z"
_LATER = "2026-01-31T12:20:00.000Z"
_ENDS = "2026-02-01T00:20:00.000Z"

ACCOUNT_PARAMETERS: dict[str, Any] = {
    "user_name": "ada",
    "session_id": 5,
    "token_id": 3,
    "everywhere": True,
    "user": "ada",
}

_USER: dict[str, Any] = {"name": "ada", "role": "write", "created_at": _AT, "has_password": True}
_TOKEN: dict[str, Any] = {"id": 3, "name": "backup", "role": "read", "created_at": _AT, "used_at": _LATER}
_SESSION: dict[str, Any] = {
    "id": 5,
    "name": "ada",
    "is_user": True,
    "role": "write",
    "created_at": _AT,
    "seen_at": _LATER,
    "expires_at": _ENDS,
    "agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "address": "192.0.2.7",
    "current": True,
}

SCHEMAS: dict[str, Any] = {
    "SignInRequest": {"name": "ada", "password": "correct horse battery"},
    "FirstUserRequest": {
        "token": "8d0e3f6f3a1b4c5d9e7f2a6b1c3d5e7f8d0e3f6f3a1",
        "name": "ada",
        "password": "correct horse battery",
    },
    "PasswordChange": {"password": "correct horse battery", "new_password": "staple that battery"},
    "NewUser": {"name": "ada", "password": "correct horse battery", "role": "write"},
    "UserPatch": {"role": "read"},
    "User": _USER,
    "UserList": {"items": [_USER], "next_cursor": None},
    "NewApiToken": {"name": "backup", "role": "read"},
    "ApiToken": _TOKEN,
    "ApiTokenList": {"items": [_TOKEN], "next_cursor": None},
    "MadeApiToken": {**_TOKEN, "used_at": None, "token": "8d0e3f6f3a1b4c5d9e7f2a6b1c3d5e7f8d0e3f6f3a1"},
    "SessionList": {"items": [_SESSION], "next_cursor": None},
    "Session": _SESSION,
    "CurrentCaller": {
        "name": "ada",
        "is_user": True,
        "role": "write",
        "by": "session",
        "expires_at": _ENDS,
        "csrf_token": "bm90IGEgcmVhbCBvbmUsIG9mIGNvdXJzZSwgYXMgc2hvd24",
    },
    "EndedSessions": {"ended": 2},
}


# Examples of rules, channels and deliveries.

NOTIFICATION_PARAMETERS: dict[str, Any] = {
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

NOTIFICATION_SCHEMAS: dict[str, Any] = {
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


# Examples of reads.

READS: dict[str, Any] = {
    "ReadsTaken": {
        "reads": 31,
        "unknown_sites": 0,
        "before_changes": 2,
        "other_changes": 0,
        "between_polls": 4,
        "repeated": False,
    },
    "SiteReads": {
        "reads": 1_204,
        "changes": 61,
        "last_read_at": "2026-01-31T12:00:00.000Z",
        "half_life": 5_400.0,
        "half_life_low": 4_700.0,
        "half_life_high": 6_200.0,
        "learned_half_life": 5_400.0,
        "in_words": "1,204 reads of 61 changes: interest halves in 1 h 30 min (90 % sure: 1 h 20 min to 1 h 40 min)",
    },
}
"""Schema -> example."""


# Examples of signal sources and signals.

_SIGNAL_EXAMPLES_SOURCE: dict[str, Any] = {
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
        "in_words": "precision 83 %, recall 61 %, about 4 min late; trust 97 %",
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
    "SignalSource": _SIGNAL_EXAMPLES_SOURCE,
    "SignalSourceList": {"items": [_SIGNAL_EXAMPLES_SOURCE], "next_cursor": None},
    "SiteSignalList": {"items": [_SIGNAL], "next_cursor": None},
    "ReportTaken": {"signals": 1, "ignored": 0},
}
"""Schema -> example."""


_EARLIER = "2026-01-31T11:30:00.000Z"

PARAMETERS: dict[str, Any] = {
    "max_rejected": 1_000,
    "site_id": 7,
    "change_id": 42,
    "content_id": 311,
    "source": 3,
    "q": "news",
    "tag": "daily",
    "state": "active",
    "host": "example.org:443",
    "limit": 100,
    "list_sites.cursor": "czEwMA",
    "rate_min": 1.0,
    "rate_max": 24.0,
    "changed": 86_400.0,
    "sort": "-last_change",
    "list_jobs.cursor": "am4xMDA",
    "job_id": 12,
    "list_pages.state": "collected",
    "list_pages.cursor": "azEwMA",
    "min_relevance": 0.2,
    "export_collection.format": "graphml",
    "part": "links",
    "list_changes.cursor": "Y24xMDA",
    "list_site_changes.cursor": "Y24xMDA",
    "list_polls.cursor": "cG4xMDA",
    "order": "newest",
    "name": "example.org:443",
    "selection": "default",
    "matters": "true",
    "list_values.name": "price",
    "plot_values.name": "price",
    "list_values.cursor": "dm4xMDA",
    "source_id": 3,
    "list_sources.cursor": "cTEwMA",
    "list_source_sites.cursor": "bTEwMA",
    "list_source_sites.state": "vanished",
    "remove_sites": False,
    "get_tag.name": "offices",
    "put_tag.name": "offices",
    "change_tag.name": "offices",
    "delete_tag.name": "offices",
    "list_hosts.q": "example.org",
    "list_hosts.cursor": "aDEwMA",
    "paused": True,
    "unreachable": False,
    "since": _AT,
    "site": 7,
    "diff_change.format": "unified",
    "export_sites.format": "csv",
    "sync": True,
    "dry_run": True,
    "context": 3,
    "share": "90%",
    "within": "30m",
    "rule": "relative-time",
    "last_event_id": 42,
    "Last-Event-ID": 42,
    **ACCOUNT_PARAMETERS,
    **NOTIFICATION_PARAMETERS,
}
"""Name, or call and name -> a value, for parameters without an example of their own."""

_SITE: dict[str, Any] = {
    "id": 7,
    "url": "https://example.org/news",
    "title": "News of the valley",
    "state": "active",
    "tags": ["daily"],
    **{name: setting.example for name, setting in INHERITED.items()},
    "page_title": "Valley News: home",
    "learned_half_life": 5_400.0,
    "header_names": ["Accept-Language"],
    "has_credentials": True,
    "method": "GET",
    "proxy": None,
    "created_at": "2026-01-01T08:00:00.000Z",
    "last_poll_at": _AT,
    "last_change_at": _EARLIER,
    "next_poll_at": _AT,
    "rate_per_day": 3.2,
    "polls": 410,
    "changes": 97,
    "failures": 0,
    "last_outcome": "not_modified",
    "last_detail": "",
    "hidden_changes": 37,
    "redirect_proposal": None,
}
_NOISE: dict[str, Any] = {
    "id": "9f86d081884c7d65",
    "selection": None,
    "hides": "after «Latest news»: ‹number›",
    "known_by": "proof",
    "hidden": True,
    "differed": 37,
    "polls": 40,
    "since": _AT,
}
_READ = {"text": "479", "number": 479.0, "moment": None, "currency": "EUR", "problem": ""}
_CURRENT: dict[str, Any] = {"name": "price", **_READ}
_SELECTION: dict[str, Any] = {"name": "default", "kind": "html", "missing": "", "values": [_CURRENT]}
_VALUE: dict[str, Any] = {"id": 12, "selection": "default", "name": "price", "at": _AT, **_READ}
_CHANGE: dict[str, Any] = {
    "id": 42,
    "site_id": 7,
    "url": "https://example.org/news",
    "detected_at": _AT,
    "previous_poll_at": _EARLIER,
    "title": "News of the valley",
    "kind": "html",
    "summary": "+ The mill is for sale (2 more)",
    "selection": "default",
    "matters": True,
    "why": "",
    "before_content_id": 310,
    "after_content_id": 311,
}
_POLL: dict[str, Any] = {
    "id": 410,
    "at": _AT,
    "elapsed": 1800.0,
    "outcome": "changed",
    "status": 200,
    "duration": 0.21,
    "bytes": 18_231,
    "changed": True,
    "detail": "",
    "redirects": [],
}

_PAGE: dict[str, Any] = {
    "id": 812,
    "url": "https://example.org/mills/water.html",
    "state": "collected",
    "reason": "",
    "depth": 3,
    "relevance": 0.41,
    "worth": None,
    "parent_id": 77,
    "discovered_at": _EARLIER,
    "asked_at": _AT,
    "modified_at": None,
    "site_id": 7,
    "own": True,
}

_OVERRIDE: dict[str, Any] = {"at": _EARLIER, "by": "a token of scope write", "paused": False, "until": None}
_FEED: dict[str, Any] = {
    "items": 20,
    "new": 14,
    "limited": True,
    "oldest_at": _EARLIER,
    "newest_at": _AT,
    "read_at": _AT,
    "full_polls": 0,
    "full_after": 10_800.0,
}
_HOST: dict[str, Any] = {
    "name": "example.org:443",
    "sites": 12,
    "spacing": 2.0,
    "crawl_delay": 2.0,
    "robots": {"state": "found", "fetched_at": _EARLIER, "retry_at": None, "failures": 0, "detail": ""},
    "paused": True,
    "paused_until": _LATER,
    "paused_by": "host",
    "pause_reason": "it asked to be left alone: 2 refusals in a row",
    "refusals": 2,
    "last_request_at": _AT,
    "next_request_at": _LATER,
    "busy": False,
    "override": _OVERRIDE,
}

_SOURCE: dict[str, Any] = {
    "id": 3,
    "url": "https://example.org/sitemap.xml",
    "kind": "sitemap",
    "tags": ["news"],
    "weight": 1.0,
    "limit": 100_000,
    "pattern": "/news/",
    "hosts": "same",
    "interval": None,
    "max_shrink": 0.5,
    "paused": False,
    "created_at": "2026-01-01T08:00:00.000Z",
    "last_read_at": _EARLIER,
    "next_read_at": _LATER,
    "learned_interval": 10_800.0,
    "listed": 1_312,
    "joined": 804,
    "vanished": 17,
    "failures": 0,
    "last_detail": "4 joined; 1 vanished; 1 paused",
}
_LISTED: dict[str, Any] = {
    "site_id": 7,
    "url": "https://example.org/news/7",
    "state": "vanished",
    "since": _AT,
    "paused": True,
}

_DECILES: list[dict[str, Any]] = [
    {"polls": 9120, "predicted": round(0.05 + tenth / 10, 2), "found": round(0.04 + tenth / 10, 2)}
    for tenth in range(10)
]

_TAG: dict[str, Any] = {
    "name": "offices",
    **dict.fromkeys(INHERITED),
    "min_interval": 900.0,
    "windows": {"zone": "Europe/Berlin", "open": [{"days": ["mon", "tue"], "from": "08:00", "to": "18:00"}]},
    "header_names": ["Accept-Language"],
    "has_credentials": False,
    "proxy": None,
    "changed_at": _AT,
    "fault": None,
}

_MEASURED = {"changes": 88, "delay_median": 1140.0, "delay_p90": 10_200.0}
_JOB: dict[str, Any] = {
    "id": 12,
    "action": "tag",
    "value": {"tag": "news"},
    "state": "running",
    "total": 10_000,
    "total_is_exact": False,
    "seen": 7_000,
    "changed": 6_841,
    "refused": 0,
    "restored": 0,
    "detail": "",
    "by": "a token of scope write",
    "created_at": _AT,
    "ended_at": None,
    "undo_until": _LATER,
}

BODIES: dict[str, dict[str, Any]] = {
    "Job": _JOB,
    "JobList": {"items": [_JOB], "next_cursor": "am43"},
    "Tag": _TAG,
    "TagList": {"items": [_TAG], "next_cursor": None},
    "Site": _SITE,
    "Change": _CHANGE,
    "Poll": _POLL,
    "SiteList": {
        "items": [_SITE],
        "next_cursor": "czc",
        "previous_cursor": None,
        "total": 10_000,
        "total_is_exact": False,
    },
    "Host": _HOST,
    "HostList": {"items": [_HOST], "next_cursor": "aDc"},
    "SitesChanged": {"count": 117},
    "Source": _SOURCE,
    "SourceList": {"items": [_SOURCE], "next_cursor": None},
    "ListedPage": _LISTED,
    "ListedPageList": {"items": [_LISTED], "next_cursor": None},
    "SourceRemoved": {"sites_removed": 0},
    "ChangeList": {"items": [_CHANGE], "next_cursor": None},
    "Noise": _NOISE,
    "NoisePatch": {"hidden": False},
    "NoiseList": {"items": [_NOISE], "next_cursor": None},
    "PollList": {"items": [_POLL], "next_cursor": None},
    "ImportResult": {
        "added": 2,
        "existing": 1,
        "rejected": [{"line": 3, "reason": "url: must be an absolute http:// or https:// URL; given: 'x'"}],
        "rejected_count": 1,
        "lines_read": 4,
        "stopped": None,
        "dry_run": False,
    },
    "ListDifference": {
        "added": ["https://example.org/new"],
        "added_count": 1,
        "existing": 2,
        "changed": [
            {
                "id": 7,
                "url": "https://example.org/news",
                "fields": [
                    {"field": "weight", "before": 1.0, "after": 2.0, "note": None},
                    {"field": "credentials", "before": "set", "after": None, "note": None},
                ],
            }
        ],
        "changed_count": 1,
        "removed": [],
        "removed_count": 0,
        "left_out_as_deleted": [],
        "left_out_as_deleted_count": 0,
        "rejected": [],
        "rejected_count": 0,
    },
    "SettingsDifference": {
        "added": ["daily"],
        "changed": [{"name": "news", "fields": [{"field": "weight", "before": 1.0, "after": 2.0, "note": None}]}],
        "removed": [],
    },
    "RestoreReport": {
        "dry_run": False,
        "complete": True,
        "sections": [
            {"section": "sites", "status": "applied", "added": 120, "changed": 2, "unchanged": 5, "reason": None}
        ],
        "secrets_missing": [{"url": "https://example.org/members", "tag": None, "kinds": ["credentials"]}],
        "secrets_missing_count": 1,
    },
    "Explanation": {
        "site_id": 7,
        "allocator": "whittle",
        "objective": "changes",
        "rate_per_day": 3.2,
        "rate_low_per_day": 2.6,
        "rate_high_per_day": 4.0,
        "elapsed": 1200.0,
        "change_probability": 0.04,
        "urgency": 0.018,
        "rank": 31,
        "price": 0.021,
        "budget_share": 0.0004,
        "expected_interval": 1700.0,
        "next_poll_at": _AT,
        "next_expected_poll_at": _LATER,
        "believed_unchanged_until": None,
        "told_ttl": None,
        "why_not_now": "the host's interval is not over",
        "capped_to_uniform": False,
        "failures": 0,
        "notes": {"prior_source": "learned from all sites"},
        "host": "example.org:443",
        "host_override": _OVERRIDE,
        "origins": {
            "weight": "site",
            "min_interval": "tag offices",
            "cost": "default",
            "headers.Accept": "tag offices",
        },
        "min_saving_in_force": 20.0,
        "half_life_in_force": 5_400.0,
        "mask": ["after «Latest news»: ‹number›"],
        "noise": [_NOISE],
        "feed": _FEED,
        "next_30_days": {"low": 51, "median": 94, "high": 150},
        "waits_for": "host_interval",
    },
    "Allocation": {
        "allocator": "whittle",
        "objective": "changes",
        "deadline": 1800.0,
        "budget": 5.0,
        "utilization": 0.98,
        "spendable": 5.0,
        "binding": "budget",
        "binding_in_words": "the budget is the limit (4.9 of 5 polls/s): a larger one finds changes sooner",
        "price": 0.021,
        "expected_detections_per_hour_as_scheduled": 312.0,
        "expected_detections_per_hour_uniform": 241.0,
        "expected_detections_per_hour_best": 318.0,
        "min_saving": 20.0,
        "median_weight": 1.0,
        "sites": 5000,
        "late_sites": 0,
        "noisy_sites": 12,
        "proofs_waiting": 3,
        "sites_without_text": 1,
        "sites_read_twice": 4_988,
        "maximum_intervals_feasible": True,
        "calibration": {"polls": 91_200, "expected_error": 0.021, "deciles": _DECILES},
        "one_more_poll_per_second_finds_per_hour": 31.0,
        "benefit_curve": [
            {"budget": 2.5, "expected_detections_per_hour": 221.0},
            {"budget": 5.0, "expected_detections_per_hour": 318.0},
            {"budget": 10.0, "expected_detections_per_hour": 421.0},
        ],
        "shadows": [
            {"allocator": "htraa", "state": "following", "expected_detections_per_hour": 287.0, "reason": None}
        ],
        "signals": {
            "sources": 2,
            "polls": 14_200,
            "found": 310,
            "polls_after_signal": 290,
            "found_after_signal": 241,
            "budget_saved": 0.42,
        },
        "timeliness": None,
    },
    "ClusterState": {
        "partitions": 64,
        "unheld": 0,
        "budget": 20.0,
        "in_force": 20.0,
        "nodes_wanted": 3,
        "connections": 31,
        "max_connections": 97,
        "nodes": [
            {
                "id": 7,
                "name": "alpha",
                "version": "0.1.0",
                "started_at": "2026-05-04T08:00:00Z",
                "here": True,
                "drained": False,
                "partitions": 32,
                "sites": 4_812,
                "roles": ["delivery", "jobs"],
                "grant": 12.5,
                "target": 12.5,
                "price": 0.4,
                "spent": 12.0,
                "silent_seconds": 1.4,
                "clock_ahead": 0.0,
                "starts": 1,
            }
        ],
    },
    "Plan": {
        "objective": "changes",
        "deadline": None,
        "allocator": "whittle",
        "tag": "shop",
        "share": 0.9,
        "within": 1800.0,
        "budget": 14.2,
        "most": 0.97,
        "limits": [],
        "current_budget": 6.0,
        "current_share": 0.71,
        "delay_median": 1320.0,
        "delay_p90": 11_400.0,
        "measured": _MEASURED,
        "sites": 1204,
        "changes_per_day": 2210.0,
        "checks_per_day": 1_226_880.0,
        "min_saving": None,
        "current_checks_per_day": 518_400.0,
        "current_min_saving": 20.0,
        "median_weight": 1.0,
        "seldom_polled": 0,
        "sampled": False,
        "by_tag": [
            {
                "tag": "shop",
                "sites": 1204,
                "changes_per_day": 2210.0,
                "share": 0.71,
                "delay_median": 1320.0,
                "delay_p90": 11_400.0,
                "measured": _MEASURED,
            }
        ],
    },
    "Collection": {
        "topic": "mills",
        "started_at": "2026-01-01T08:00:00.000Z",
        "size": 1_204,
        "mean_relevance": 0.31,
        "freshness": 0.93,
        "requests": 4_105,
        "harvest_rate": 0.29,
        "frontier": 18_230,
        "fringe": 18_230,
        "hosts": 611,
        "pages": {"fringe": 18_230, "asked": 12, "collected": 1_204, "rejected": 2_890, "gone": 11},
    },
    "KnownPage": _PAGE,
    "KnownPageList": {"items": [_PAGE], "next_cursor": None},
    "Difference": {
        "change_id": 42,
        "format": "unified",
        "before": {"at": _EARLIER, "kind": "html", "bytes": 812, "lines": 40},
        "after": {"at": _AT, "kind": "html", "bytes": 840, "lines": 40},
        "added": 1,
        "removed": 1,
        "coarse": False,
        "truncated": False,
        "text": "@@ -7 +7 @@\n-The mill is open.\n+The mill is for sale.\n",
        "rows": None,
    },
    "SelectionStatusList": {"items": [_SELECTION], "next_cursor": None},
    "SelectionStatus": _SELECTION,
    "ValueList": {"items": [_VALUE], "next_cursor": None},
    "Value": _VALUE,
    "Preview": {
        "url": "https://example.org/shop",
        "outcome": "body",
        "status": 200,
        "detail": "",
        "retry_after": None,
        "recognised": {
            "kind": "product",
            "title": "Espresso machine",
            "lines": ["Home", "Espresso machine", "479.00"],
            "price": "479.00 EUR",
            "price_from": {"css": "[itemprop=price]", "attribute": "content"},
            "obstacle": None,
            "reason": "",
            "cure": "",
            "feeds": [],
        },
        "selections": [
            {
                "name": "default",
                "kind": "html",
                "kept": "479.00",
                "cut": False,
                "removed": ["Menu"],
                "values": [_CURRENT],
                "missing": "",
                "warnings": [],
                "now": None,
                "earlier": [
                    {
                        "change_id": 42,
                        "detected_at": _AT,
                        "counts": True,
                        "matters": True,
                        "why": "price 479 is below 500",
                    }
                ],
            }
        ],
    },
    "Health": {"status": "ok"},
    "Readiness": {"status": "ready", "reason": None},
    **SCHEMAS,
    **NOTIFICATION_SCHEMAS,
    **SIGNALS,
    **READS,
}
"""Name of a schema -> an example."""

TEXTS = {
    "text/plain": "https://example.org/news\n",
    "text/csv": "url,weight,tags\nhttps://example.org/news,2,news;daily\n",
    "application/x-ndjson": '{"url": "https://example.org/news", "weight": 2, "tags": ["news"]}\n',
    "text/x-opml": '<opml version="2.0"><body><outline xmlUrl="https://example.org/feed"/></body></opml>',
}
"""Media type -> an example list of sites, for calls without their own."""


def _problem(status: int, title: str, detail: str, kind: str | None = None, **more: Any) -> dict[str, Any]:
    type_ = "about:blank" if kind is None else f"urn:pollerd:problem:{kind}"
    return {"type": type_, "title": title, "status": status, "detail": detail, **more}


PROBLEMS: dict[int, dict[str, Any]] = {
    400: _problem(400, "Bad Request", "the body cannot be read as JSON"),
    401: _problem(401, "Unauthorized", "a bearer token is needed"),
    403: _problem(403, "Forbidden", "the bearer token does not allow to write"),
    404: _problem(404, "Not Found", "no such site: 7", "not-found"),
    409: _problem(409, "Conflict", "site exists already: https://example.org/news (id 7)", "duplicate", existing_id=7),
    410: _problem(
        410,
        "Gone",
        "a content of this change was pruned: it was current longer ago than content_retention (2592000 s) lets it be "
        "kept; its summary is kept",
        "content-pruned",
        limit="content_retention",
        pruned=["before"],
        summary="+ The mill is for sale (2 more)",
    ),
    413: _problem(413, "Request Entity Too Large", "the body may have at most 1048576 bytes"),
    415: _problem(415, "Unsupported Media Type", "the body must be application/json"),
    422: _problem(
        422,
        "Unprocessable Entity",
        "weight: must be 0 to 1,000,000,000",
        "invalid-value",
        errors=[{"field": "weight", "allowed": "0 to 1,000,000,000", "given": -1}],
    ),
    429: _problem(429, "Too Many Requests", "too many wrong tokens came from this address", "too-many-wrong-tokens"),
    500: _problem(500, "Internal Server Error", "a fault of the daemon; its log says more"),
    503: _problem(503, "Service Unavailable", "the database is locked", "database-unavailable"),
}
"""Status -> a problem document."""
