"""The page Alerts: who is alerted (channels), of what (rules as sentences), and what was sent (the log)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
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
from pollerd.web.words import DAY_WORDS, Part, Sentence, Strong, in_a_row, sentence

# A rule in words.

_EVENTS = {
    "site.changed": N_("a site changes"),
    "site.first_seen": N_("a site is read for the first time"),
    "site.failing": N_("a site fails"),
    "site.recovered": N_("a site answers again"),
    "site.gone": N_("a site is gone"),
    "site.moved": N_("a site moves"),
    "site.no_text": N_("a site has no text"),
    "site.nothing_selected": N_("a site loses its watched part"),
    "daemon.blind": N_("nothing could be checked for a while"),
    "daemon.over_budget": N_("the budget is too small for the intervals"),
    "channel.down": N_("a channel stops working"),
}
_PLACES = {
    "summary": N_("the summary has {words}"),
    "added": N_("an added line has {words}"),
    "removed": N_("a removed line has {words}"),
}
_OR, _AND = N_("{first} or {last}"), N_("{first} and {last}")


def event_words() -> dict[str, str]:
    """Returns each kind of event in words."""
    return {kind: _(words) for kind, words in _EVENTS.items()}


def rule_words(rule: Mapping[str, Any]) -> Sentence:
    """Returns what a rule does, in a few sentences; `rule` as REST shows it."""
    more = (*_sites(rule.get("sites") or {}), *_words(rule.get("words") or {}), *_patience(rule), *_quiet(rule))
    return in_a_row(_main(rule), *((text,) for text in more))


def _main(rule: Mapping[str, Any]) -> Sentence:
    events = [_(_EVENTS[event]) for event in rule.get("events") or ["site.changed"] if event in _EVENTS]
    said: dict[str, Part | None] = {
        "condition": _listed(events, _OR) or _("nothing happens"),
        "channels": Strong(_listed([str(name) for name in rule.get("channels") or ()], _AND)),
    }
    digest = rule.get("digest")
    if not isinstance(digest, Mapping):
        return sentence(N_("When {condition}, alert {channels} at once."), **said)
    if digest.get("every") == "hour":
        return sentence(N_("When {condition}, alert {channels} in a digest every hour."), **said)
    said |= {"time": str(digest.get("at")), "zone": str(digest.get("zone", "UTC"))}
    if not digest.get("days"):
        return sentence(N_("When {condition}, alert {channels} daily at {time} ({zone})."), **said)
    said["days"] = _listed([_(DAY_WORDS.get(day, day)) for day in digest["days"]], _AND)
    return sentence(N_("When {condition}, alert {channels} at {time} ({zone}) on {days}."), **said)


def _sites(scope: Mapping[str, Any]) -> Iterator[str]:
    kinds = []
    if scope.get("tags"):
        kinds.append(_("sites tagged {tags}", tags=_listed([str(tag) for tag in scope["tags"]], _OR)))
    if scope.get("hosts"):
        kinds.append(_("sites of {hosts}", hosts=_listed([str(host) for host in scope["hosts"]], _OR)))
    if scope.get("ids"):
        kinds.append(n_("the site that it names", "the {count} sites that it names", len(scope["ids"])))
    if kinds:
        yield _("Only {sites}.", sites=_listed(kinds, _OR))
    if scope.get("media"):
        yield _(
            "Only content of the kind {media}.", media=_listed([Media(name).in_words for name in scope["media"]], _OR)
        )
    if names := [str(name) for name in scope.get("selections") or ()]:
        yield _("Only the selection {names}.", names=_listed(names, _OR))


def _words(words: Mapping[str, Any]) -> Iterator[str]:
    places = [
        _(text, words=_listed([_pattern(pattern) for pattern in words[place]], _OR))
        for place, text in _PLACES.items()
        if words.get(place)
    ]
    if places:
        yield _("Only if {condition}.", condition=_listed(places, _OR))


def _pattern(pattern: Any) -> str:
    settings = pattern if isinstance(pattern, Mapping) else {"text": pattern}
    return f"/{settings['re']}/" if "re" in settings else f"\u201c{settings.get('text', '')}\u201d"


def _patience(rule: Mapping[str, Any]) -> Iterator[str]:
    failing = rule.get("failing") or {}
    limits = []
    if failing.get("after_polls"):
        limits.append(n_("{count} failed check", "{count} failed checks", failing["after_polls"]))
    if failing.get("after"):
        limits.append(duration(failing["after"]))
    if limits and "site.failing" in (rule.get("events") or ()):
        yield _("A site fails after {limits}.", limits=_listed(limits, _OR))
    if not rule.get("matters", True):
        yield _("Changes that are not important count, too.")


def _quiet(rule: Mapping[str, Any]) -> Iterator[str]:
    quiet = rule.get("quiet")
    if isinstance(quiet, Mapping):
        hours = [_("{start} to {end}", start=window["from"], end=window["to"]) for window in quiet.get("hours", ())]
        zone = quiet.get("zone", "UTC")
        yield _("Nothing is sent from {hours} ({zone}).", hours=_listed(hours, _AND), zone=zone)


def _listed(items: Sequence[str], last: str) -> str:
    """Joins items as in "a, b and c"; last: the text that joins the last two, such as "{first} and {last}"."""
    if len(items) < 2:
        return "".join(items)
    first = reduce(lambda before, item: _("{before}, {item}", before=before, item=item), items[:-1])
    return _(last, first=first, last=items[-1])


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
