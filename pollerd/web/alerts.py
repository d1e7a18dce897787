"""The page Alerts: who is alerted (channels), of what (rules as sentences), and what was sent (the log)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import Query, Response

from pollerd.api.http import Cursor
from pollerd.api.notifications import RuleSchema, shown_channels
from pollerd.events import NoticeState
from pollerd.model import Media
from pollerd.quantities import duration
from pollerd.storage.notification_values import NoticeFilter
from pollerd.texts import N_, _, n_
from pollerd.web.http import one_of
from pollerd.web.page import Page, Shown, page_router
from pollerd.web.words import DAY_WORDS, Sentence, Strong

# A rule in words.

_EVENTS = {
    "site.changed": N_("changes"),
    "site.first_seen": N_("is read for the first time"),
    "site.failing": N_("fails"),
    "site.recovered": N_("answers again"),
    "site.gone": N_("is gone"),
    "site.moved": N_("moves"),
    "site.no_text": N_("has no text"),
    "site.nothing_selected": N_("loses its watched part"),
}
_OF_DAEMON = {
    "daemon.blind": N_("nothing could be checked for a while"),
    "daemon.over_budget": N_("the budget is too small for the intervals"),
    "channel.down": N_("a channel stops working"),
}

_PLACES = {
    "summary": N_("the summary has {}"),
    "added": N_("an added line has {}"),
    "removed": N_("a removed line has {}"),
}


def event_words() -> dict[str, str]:
    """Returns each kind of event in words."""
    of_sites = {kind: _("a site {does}", does=_(does)) for kind, does in _EVENTS.items()}
    return {**of_sites, **{kind: _(words) for kind, words in _OF_DAEMON.items()}}


def rule_words(rule: Mapping[str, Any]) -> Sentence:
    """Returns what a rule does; `rule` as REST shows it."""
    events = rule.get("events") or ["site.changed"]
    of_sites = [_(_EVENTS[event]) for event in events if event in _EVENTS]
    others = [_(_OF_DAEMON[event]) for event in events if event in _OF_DAEMON]
    site_events = [f"{_sites(rule.get('sites') or {})} {_listed(of_sites, _('or'))}"] if of_sites else []
    condition = _listed([*site_events, *others], _("or")) or _("nothing happens")
    channels = [str(name) for name in rule.get("channels") or ()]
    more = "".join(f", {part}" for part in (*_words(rule.get("words") or {}), *_patience(rule)))
    return (
        _("When {condition}{more}, alert ", condition=condition, more=more),
        Strong(_listed(channels, _("and"))),
        f" {_time(rule)}.",
    )


def _sites(scope: Mapping[str, Any]) -> str:
    kinds = []
    if scope.get("tags"):
        kinds.append(_("tagged {tags}", tags=_listed([str(tag) for tag in scope["tags"]], _("or"))))
    if scope.get("hosts"):
        kinds.append(_("of {hosts}", hosts=_listed([str(host) for host in scope["hosts"]], _("or"))))
    if scope.get("ids"):
        count = len(scope["ids"])
        kinds.append(_("that it names") if count == 1 else _("among {count} that it names", count=count))
    site = _("a site {kinds}", kinds=_(" or ").join(kinds)) if kinds else _("any site")
    contents = [Media(name).in_words for name in scope.get("media", ())]
    contents += [str(name) for name in scope.get("selections", ())]
    return _("{site} ({contents} only)", site=site, contents=_listed(contents, _("or"))) if contents else site


def _words(words: Mapping[str, Any]) -> list[str]:
    alternatives = [
        _(_PLACES[place]).format(_listed([_pattern(pattern) for pattern in words[place]], _("or")))
        for place in _PLACES
        if words.get(place)
    ]
    return [_("and {words}", words=_listed(alternatives, _("or")))] if alternatives else []


def _pattern(pattern: Any) -> str:
    settings = pattern if isinstance(pattern, Mapping) else {"text": pattern}
    return f"/{settings['re']}/" if "re" in settings else f"\u201c{settings.get('text', '')}\u201d"


def _patience(rule: Mapping[str, Any]) -> list[str]:
    failing = rule.get("failing") or {}
    parts = []
    if "site.failing" in (rule.get("events") or ()) and failing:
        limits = (
            [n_("{count} failed check", "{count} failed checks", failing["after_polls"])]
            if failing.get("after_polls")
            else []
        )
        limits += [duration(failing["after"])] if failing.get("after") else []
        parts += [_("failing after {limits}", limits=_(" or ").join(limits))] if limits else []
    return parts if rule.get("matters", True) else [*parts, _("also if the change is not important")]


def _time(rule: Mapping[str, Any]) -> str:
    digest, quiet = rule.get("digest"), rule.get("quiet")
    time = _("at once")
    if isinstance(digest, Mapping):
        zone = f" ({digest['zone']})" if digest.get("zone") else ""
        days = (
            _(" on {days}", days=_listed([_(DAY_WORDS.get(day, day)) for day in digest["days"]], _("and")))
            if digest.get("days")
            else ""
        )
        time = (
            _("in a digest every hour")
            if digest.get("every") == "hour"
            else _("daily at {time}{zone}{days}", time=digest.get("at"), zone=zone, days=days)
        )
    if not isinstance(quiet, Mapping):
        return time
    hours = _listed(
        [_("{start} to {end}", start=window["from"], end=window["to"]) for window in quiet.get("hours", ())], _("and")
    )
    return _("{time}, but not from {hours} ({zone})", time=time, hours=hours, zone=quiet.get("zone", "UTC"))


def _listed(items: Sequence[str], last: str) -> str:
    """Joins "a, b and c"."""
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} {last} {items[-1]}"


# The page.

router = page_router()
READY = (
    ("everything", N_("Everything at once")),
    ("digest", N_("A digest each morning at 8")),
    ("failures", N_("Only failures")),
)
"""Rules that are filled in already: name in the address, and in words."""
_DELIVERIES = 25
_STATES = [
    (NoticeState.WAITING.value, N_("queued")),
    (NoticeState.SENDING.value, N_("being sent")),
    (NoticeState.SENT.value, N_("sent")),
    (NoticeState.DEAD.value, N_("failed")),
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
    here = str(page.request.base_url).rstrip("/")
    values = {"tested": None, "secret": None, "failed": "", "browser_address": here, **more}
    return page.show(
        "rules.html",
        rules=[(rule, rule_words(rule.rule)) for rule in rules],
        channels=channels,
        titles=await page.ports.store.sites.titles({notice.site_id for notice in deliveries.items if notice.site_id}),
        names={channel.id: channel.name for channel in channels},
        deliveries=deliveries.items,
        next_cursor=deliveries.next_cursor,
        cursor=cursor,
        state=state,
        states=_STATES,
        state_words={state: _(words) for state, words in _STATES},
        event_words={**event_words(), "channel.test": _("a test")},
        ready=READY,
        deleted=await store.rules.deleted(page.now),
        public_url=page.ports.control.notifications.public_url,
        kept_url=(page.web.setting("public_url") or "").rstrip("/"),
        alone=page.ports.store.shared is None,
        **values,
    )


ROUTERS = (router,)
