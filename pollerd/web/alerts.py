"""The page Alerts: who is alerted (channels), of what (rules as sentences), and what was sent (the log)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import Query, Response

from pollerd.api.http import Cursor
from pollerd.api.notifications import RuleSchema, shown_channels
from pollerd.events import NoticeState
from pollerd.quantities import counted, duration
from pollerd.storage.notification_values import NoticeFilter
from pollerd.web.http import one_of
from pollerd.web.page import Page, Shown, page_router
from pollerd.web.words import Sentence, Strong

# A rule in words.

_EVENTS = {
    "site.changed": "changes",
    "site.first_seen": "is read for the first time",
    "site.failing": "fails",
    "site.recovered": "answers again",
    "site.gone": "is gone",
    "site.moved": "moves",
    "site.no_text": "has no text",
    "site.nothing_selected": "no longer has the part that is selected",
}
_OF_DAEMON = {
    "daemon.blind": "nothing could be checked for a while",
    "daemon.over_budget": "the budget is too small for the intervals",
    "channel.down": "a channel is refused",
}

EVENT_WORDS: Mapping[str, str] = {**{kind: f"a site {verb}" for kind, verb in _EVENTS.items()}, **_OF_DAEMON}
"""Each kind of event in words."""
_PLACES = {
    "summary": "the summary has {}",
    "added": "an added line has {}",
    "removed": "a removed line has {}",
}


def rule_words(rule: Mapping[str, Any]) -> Sentence:
    """Returns what a rule does; `rule` as REST shows it."""
    events = rule.get("events") or ["site.changed"]
    of_sites = [_EVENTS[event] for event in events if event in _EVENTS]
    others = [_OF_DAEMON[event] for event in events if event in _OF_DAEMON]
    site_events = [f"{_sites(rule.get('sites') or {})} {_listed(of_sites, 'or')}"] if of_sites else []
    condition = _listed([*site_events, *others], "or") or "nothing happens"
    channels = [str(name) for name in rule.get("channels") or ()]
    more = "".join(f", {part}" for part in (*_words(rule.get("words") or {}), *_patience(rule)))
    return (
        f"When {condition}{more}, alert ",
        Strong(_listed(channels, "and")),
        f" {_time(rule)}.",
    )


def _sites(scope: Mapping[str, Any]) -> str:
    kinds = []
    if scope.get("tags"):
        kinds.append(f"tagged {_listed([str(tag) for tag in scope['tags']], 'or')}")
    if scope.get("hosts"):
        kinds.append(f"of {_listed([str(host) for host in scope['hosts']], 'or')}")
    if scope.get("ids"):
        count = len(scope["ids"])
        kinds.append("that it names" if count == 1 else f"among {count} that it names")
    site = f"a site {' or '.join(kinds)}" if kinds else "any site"
    contents = [str(name) for name in (*scope.get("media", ()), *scope.get("selections", ()))]
    return f"{site} ({_listed(contents, 'or')} only)" if contents else site


def _words(words: Mapping[str, Any]) -> list[str]:
    alternatives = [
        _PLACES[place].format(_listed([_pattern(pattern) for pattern in words[place]], "or"))
        for place in _PLACES
        if words.get(place)
    ]
    return [f"and {_listed(alternatives, 'or')}"] if alternatives else []


def _pattern(pattern: Any) -> str:
    settings = pattern if isinstance(pattern, Mapping) else {"text": pattern}
    return f"/{settings['re']}/" if "re" in settings else f"\u201c{settings.get('text', '')}\u201d"


def _patience(rule: Mapping[str, Any]) -> list[str]:
    failing = rule.get("failing") or {}
    parts = []
    if "site.failing" in (rule.get("events") or ()) and failing:
        limits = [counted(failing["after_polls"], "failed check")] if failing.get("after_polls") else []
        limits += [duration(failing["after"])] if failing.get("after") else []
        parts += [f"failing after {' or '.join(limits)}"] if limits else []
    return parts if rule.get("matters", True) else [*parts, "also if the change is not important"]


def _time(rule: Mapping[str, Any]) -> str:
    digest, quiet = rule.get("digest"), rule.get("quiet")
    time = "at once"
    if isinstance(digest, Mapping):
        zone = f" ({digest['zone']})" if digest.get("zone") else ""
        days = f" on {_listed([day.capitalize() for day in digest['days']], 'and')}" if digest.get("days") else ""
        time = "in a digest every hour" if digest.get("every") == "hour" else f"daily at {digest.get('at')}{zone}{days}"
    if not isinstance(quiet, Mapping):
        return time
    hours = _listed([f"{window['from']} to {window['to']}" for window in quiet.get("hours", ())], "and")
    return f"{time}, but not from {hours} ({quiet.get('zone', 'UTC')})"


def _listed(items: Sequence[str], last: str) -> str:
    """Joins "a, b and c"."""
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} {last} {items[-1]}"


# The page.

router = page_router()
READY = (
    ("everything", "Everything at once"),
    ("digest", "A digest each morning at 8"),
    ("failures", "Only failures"),
)
"""Rules that are filled in already: name in the address, and in words."""
_DELIVERIES = 25
_STATES = [
    (NoticeState.WAITING.value, "queued"),
    (NoticeState.SENDING.value, "being sent"),
    (NoticeState.SENT.value, "sent"),
    (NoticeState.DEAD.value, "failed"),
]


@router.get("/alerts")
async def alerts(page: Shown) -> Response:
    """The page under the name that its title has."""
    return page.go("/rules")


@router.get("/rules")
async def list_rules(page: Shown, state: Annotated[str, Query(max_length=20)] = "", cursor: Cursor = None) -> Response:
    """All channels and rules, and the last deliveries."""
    return await alerts_page(page, state=state, cursor=cursor)


async def alerts_page(page: Page, *, state: str = "", cursor: str | None = None, **more: Any) -> Response:
    """Returns the page; more: the result of a test, the secret of a new webhook, a refusal with its status."""
    store = page.ports.store.notifications
    rules = [RuleSchema.of(row) for row in await store.rules.all()]
    filters = NoticeFilter(state=one_of(NoticeState, "state", state) if state else None)
    deliveries = await store.log.notices(filters, _DELIVERIES, cursor)
    channels = await shown_channels(page.ports)
    values = {"tested": None, "secret": None, "failed": "", **more}
    return page.show(
        "rules.html",
        rules=[(rule, rule_words(rule.rule)) for rule in rules],
        channels=channels,
        names={channel.id: channel.name for channel in channels},
        deliveries=deliveries.items,
        next_cursor=deliveries.next_cursor,
        cursor=cursor,
        state=state,
        states=_STATES,
        state_words=dict(_STATES),
        event_words={**EVENT_WORDS, "channel.test": "a test"},
        ready=READY,
        deleted=await store.rules.deleted(page.now),
        no_address=page.web.setting("public_url") == "",
        browser_address=str(page.request.base_url).rstrip("/"),
        **values,
    )


ROUTERS = (router,)
