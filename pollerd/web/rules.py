"""Rules and channels.

Rules and channels: who is told of what, how it went, and forms to change it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import Path, Query, Response

from pollerd.api.http import MAX_ID, Cursor
from pollerd.api.notifications import RuleSchema, shown_channels
from pollerd.errors import InvalidValueError
from pollerd.events import EventKind, NoticeState
from pollerd.storage.notification_values import NoticeFilter
from pollerd.web.http import Posted, PostedForm, one_of, tags_in_one_field
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
    "site.nothing_selected": "no longer has what is selected",
}
_OF_DAEMON = {
    "daemon.blind": "nothing could be polled for a while",
    "daemon.over_budget": "the budget cannot hold the intervals",
    "channel.down": "a channel is refused",
}

EVENT_WORDS: Mapping[str, str] = {**{kind: f"a page {said}" for kind, said in _EVENTS.items()}, **_OF_DAEMON}
"""Each kind of event in words."""


def rule_words(rule: Mapping[str, Any]) -> Sentence:
    """Returns what a rule does; `rule` as REST shows it."""
    events = rule.get("events") or ["site.changed"]
    of_pages = [_EVENTS[event] for event in events if event in _EVENTS]
    others = [_OF_DAEMON[event] for event in events if event in _OF_DAEMON]
    when = [f"{_pages(rule.get('sites') or {})} {_listed(of_pages, 'or')}"] if of_pages else []
    condition = _listed([*when, *others], "or") or "nothing happens"
    words = " with the words it names" if rule.get("words") else ""
    return (
        f"When {condition}{words}, tell ",
        Strong(_listed([str(one) for one in rule.get("channels") or ()], "and")),
        f" {_time(rule)}.",
    )


def _pages(scope: Mapping[str, Any]) -> str:
    said = []
    if scope.get("tags"):
        said.append(f"tagged {_listed([str(one) for one in scope['tags']], 'or')}")
    if scope.get("hosts"):
        said.append(f"of {_listed([str(one) for one in scope['hosts']], 'or')}")
    if scope.get("ids"):
        count = len(scope["ids"])
        said.append("that it names" if count == 1 else f"of {count} that it names")
    return f"a page {' or '.join(said)}" if said else "any page"


def _time(rule: Mapping[str, Any]) -> str:
    digest, quiet, said = rule.get("digest"), rule.get("quiet"), "at once"
    if isinstance(digest, Mapping):
        zone = f" ({digest['zone']})" if digest.get("zone") else ""
        said = "in a digest every hour" if digest.get("every") == "hour" else f"daily at {digest.get('at')}{zone}"
    return f"{said}, but not in quiet hours" if quiet else said


def _listed(items: Sequence[str], last: str) -> str:
    """Joins "a, b and c"."""
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} {last} {items[-1]}"


router = page_router(prefix="/rules")
RuleId = Annotated[int, Path(ge=1, le=MAX_ID)]
ChannelId = Annotated[int, Path(ge=1, le=MAX_ID)]
_DELIVERIES = 25
_STATES = [(state.value, state.value) for state in NoticeState]
_FIELDS = {
    "webhook": ("url",),
    "email": ("host", "port", "security", "sender", "recipients", "username", "password"),
    "apprise": ("url",),
    "nats": ("host", "port", "subject", "stream"),
}
"""Settings that the forms of channels ask for, by kind; all others by `pollerd channels` and REST."""


@router.get("")
async def list_rules(page: Shown, state: Annotated[str, Query(max_length=20)] = "", cursor: Cursor = None) -> Response:
    """All rules and channels, and the last deliveries."""
    return await _page(page, state=state, cursor=cursor)


async def _page(page: Page, *, state: str = "", cursor: str | None = None, **more: Any) -> Response:
    store = page.ports.store.notifications
    rules = [RuleSchema.of(one) for one in await store.rules.all()]
    wanted = NoticeFilter(state=one_of(NoticeState, "state", state) if state else None)
    deliveries = await store.log.notices(wanted, _DELIVERIES, cursor)
    channels = await shown_channels(page.ports)
    values = {"tested": None, "secret": None, **more}
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
        no_address=page.web.setting("public_url") == "",
        **values,
    )


@router.get("/new")
async def new_rule(page: Shown) -> Response:
    """The form of a new rule."""
    return await _form(page, None, {})


@router.get("/{rule_id:id}")
async def edit_rule(page: Shown, rule_id: RuleId) -> Response:
    """The form of a rule."""
    rule = RuleSchema.of(await page.ports.store.notifications.rules.get(rule_id))
    return await _form(page, rule_id, rule.rule | {"name": rule.name})


async def _form(page: Page, rule_id: int | None, rule: dict[str, Any]) -> Response:
    channels = [channel.spec.name for channel in await page.ports.store.notifications.channels.all()]
    kinds = [(kind.value, EVENT_WORDS[kind.value]) for kind in EventKind if kind.value in EVENT_WORDS]
    given = rule.get("digest")
    digest = given.get("every", "none") if isinstance(given, dict) else "none"
    return page.show(
        "rule.html",
        rule_id=rule_id,
        rule=rule,
        channels=channels,
        kinds=kinds,
        digest=digest,
        tags=tags_in_one_field((rule.get("sites") or {}).get("tags") or ()),
        digest_at=given.get("at", "08:00") if isinstance(given, dict) else "08:00",
        zone=given.get("zone", "UTC") if isinstance(given, dict) else "UTC",
    )


@router.post("/new")
async def add_rule(page: Shown, form: Posted) -> Response:
    """Adds a rule."""
    async with page.ports.turn:
        await page.ports.control.notifications.add_rule(_document(form, {}))
    return page.go("/rules")


@router.post("/{rule_id:id}")
async def change_rule(page: Shown, rule_id: RuleId, form: Posted) -> Response:
    """Changes what the form shows of a rule; the rest of it stays."""
    async with page.ports.turn:
        kept = RuleSchema.of(await page.ports.store.notifications.rules.get(rule_id)).rule
        await page.ports.control.notifications.change_rule(rule_id, _document(form, kept))
    return page.go("/rules")


@router.post("/{rule_id:id}/delete")
async def delete_rule(page: Shown, rule_id: RuleId) -> Response:
    """Removes a rule."""
    async with page.ports.turn:
        await page.ports.control.notifications.delete_rule(rule_id)
    return page.go("/rules")


def _document(form: PostedForm, kept: dict[str, Any]) -> dict[str, Any]:
    """Returns a rule: what the form says, over what is kept of the rule before."""
    tags = form.tags("tags")
    sites = {name: value for name, value in (kept.get("sites") or {}).items() if name != "tags"}
    before = kept.get("digest")
    every = form.text("digest")
    digest: Any = "none"
    if every in ("hour", "day"):
        kept_of_it = before if isinstance(before, dict) and before.get("every") == every else {}
        digest = {**kept_of_it, "every": every, "zone": form.text("zone") or "UTC"}
    if every == "day":
        digest["at"] = form.text("digest_at") or "08:00"
    document = {
        **{name: value for name, value in kept.items() if name not in ("sites", "digest")},
        "name": form.text("name"),
        "channels": list(form.texts("channel")),
        "events": list(form.texts("event")),
        "digest": digest,
        "enabled": form.has("enabled"),
    }
    if tags:
        sites["tags"] = tags
    return document | ({"sites": sites} if sites else {})


@router.post("/channels")
async def add_channel(page: Shown, form: Posted) -> Response:
    """Adds a channel; of a webhook the secret is shown this once."""
    kind = form.text("kind")
    if kind not in _FIELDS:
        raise InvalidValueError("kind", "one of " + ", ".join(_FIELDS), kind)
    settings: dict[str, Any] = {name: form.text(name) for name in _FIELDS[kind] if form.text(name)}
    if "recipients" in settings:
        settings["recipients"] = [one.strip() for one in settings["recipients"].split(",") if one.strip()]
    if "port" in settings:
        settings["port"] = int(form.optional_number("port") or 0)
    control = page.ports.control.notifications
    async with page.ports.turn:
        added = await control.add_channel(form.text("name"), kind, settings)
    secret = control.signing_secret(added) if kind == "webhook" else None
    return await _page(page, secret=(added.spec.name, secret)) if secret else page.go("/rules")


@router.post("/channels/{channel_id:id}/test")
async def test_channel(page: Shown, channel_id: ChannelId) -> Response:
    """Sends a test message, and says what came of it."""
    channel = await page.ports.store.notifications.channels.get(channel_id)
    answer = await page.ports.control.notifications.try_channel(channel_id)
    code = "" if answer.status is None else f" {answer.status}"
    said = f"{answer.kind.value}{code}{': ' if answer.detail else ''}{answer.detail}"
    return await _page(page, tested=(channel.spec.name, answer.kind.value == "sent", said))


@router.post("/channels/{channel_id:id}/resend")
async def resend(page: Shown, channel_id: ChannelId) -> Response:
    """Makes what is dead wait anew."""
    await page.ports.control.notifications.resend(channel_id=channel_id)
    return page.go("/rules")


@router.post("/channels/{channel_id:id}/delete")
async def delete_channel(page: Shown, channel_id: ChannelId) -> Response:
    """Removes a channel; not while rules name it."""
    async with page.ports.turn:
        await page.ports.control.notifications.delete_channel(channel_id)
    return page.go("/rules")


ROUTERS = (router,)
