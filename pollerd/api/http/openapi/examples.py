"""Examples of the OpenAPI document; a test validates each against its schema."""

from __future__ import annotations

from typing import Any

from pollerd.api.http.openapi import notification_examples

_AT = "2026-01-31T12:00:00.000Z"
_EARLIER = "2026-01-31T11:30:00.000Z"
_LATER = "2026-01-31T12:20:00.000Z"

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
    "last_event_id": 42,
    "Last-Event-ID": 42,
    **notification_examples.PARAMETERS,
}
"""Name, or call and name -> a value, for parameters without an example of their own."""

_SITE: dict[str, Any] = {
    "id": 7,
    "url": "https://example.org/news",
    "title": "News of the valley",
    "state": "active",
    "weight": 2.0,
    "cost": 1.0,
    "tags": ["daily"],
    "min_interval": None,
    "max_interval": 86_400.0,
    "min_yield": None,
    "respect_ttl": None,
    "half_life": None,
    "windows": None,
    "header_names": ["Accept-Language"],
    "has_credentials": True,
    "method": "GET",
    "proxy": None,
    "render": None,
    "keep_screenshots": False,
    "selections": {"default": {"steps": [{"keep": {"css": "main"}}]}},
    "created_at": "2026-01-01T08:00:00.000Z",
    "last_poll_at": _AT,
    "next_poll_at": _AT,
    "rate_per_day": 3.2,
    "polls": 410,
    "changes": 97,
    "failures": 0,
    "last_outcome": "not_modified",
    "last_detail": "",
    "redirect_proposal": None,
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
    "kind": "html",
    "summary": "+3 -1 lines: the mill is for sale",
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
    **dict.fromkeys(("weight", "cost", "max_interval", "min_yield", "respect_ttl", "half_life")),
    "min_interval": 900.0,
    "selections": None,
    "render": None,
    "keep_screenshots": None,
    "windows": {"zone": "Europe/Berlin", "open": [{"days": ["mon", "tue"], "from": "08:00", "to": "18:00"}]},
    "header_names": ["Accept-Language"],
    "has_credentials": False,
    "proxy": None,
    "changed_at": _AT,
    "fault": None,
}

BODIES: dict[str, dict[str, Any]] = {
    "Tag": _TAG,
    "TagList": {"items": [_TAG], "next_cursor": None},
    "Site": _SITE,
    "Change": _CHANGE,
    "Poll": _POLL,
    "SiteList": {"items": [_SITE], "next_cursor": "czc"},
    "Host": _HOST,
    "HostList": {"items": [_HOST], "next_cursor": "aDc"},
    "SitesChanged": {"count": 117},
    "Source": _SOURCE,
    "SourceList": {"items": [_SOURCE], "next_cursor": None},
    "ListedPage": _LISTED,
    "ListedPageList": {"items": [_LISTED], "next_cursor": None},
    "SourceRemoved": {"sites_removed": 0},
    "ChangeList": {"items": [_CHANGE], "next_cursor": None},
    "PollList": {"items": [_POLL], "next_cursor": None},
    "ImportResult": {
        "added": 2,
        "existing": 1,
        "rejected": [{"line": 3, "reason": "url: must be an absolute http:// or https:// URL; given: 'x'"}],
        "rejected_count": 1,
        "lines_read": 4,
        "stopped": None,
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
        "why_not_now": "others are more urgent",
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
        "mask": ["after «Latest news»: ‹number›"],
    },
    "Allocation": {
        "allocator": "whittle",
        "objective": "changes",
        "budget": 5.0,
        "utilization": 0.98,
        "spendable": 5.0,
        "binding": "budget",
        "binding_in_words": "budget binding: 4.9 of 5 polls/s used; a larger one shortens delays",
        "price": 0.021,
        "expected_detections_per_hour_as_scheduled": 312.0,
        "expected_detections_per_hour_uniform": 241.0,
        "expected_detections_per_hour_best": 318.0,
        "sites": 5000,
        "late_sites": 0,
        "noisy_sites": 12,
        "proofs_waiting": 3,
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
    **notification_examples.SCHEMAS,
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
        summary="+3 -1 lines: the mill is for sale",
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
