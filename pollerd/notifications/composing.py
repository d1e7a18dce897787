"""Composition of messages: claimed notices' events are read, contents compared, and the text written for a channel."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import structlog
from msgspec.structs import replace

from pollerd.errors import PollerdError, TooHeavyError
from pollerd.events import EventKind
from pollerd.model import Media
from pollerd.notifications.message import Event, EventChange, EventSite, Message
from pollerd.notifications.messages import CutLines, changed_lines, cut_lines
from pollerd.notifications.templates import TemplateError, body_of, context_of, render
from pollerd.notifications.writing import Look, Medium, escaped, message_of_digest, message_of_group, message_of_one
from pollerd.storage.notification_values import ClaimedMessage, NoticeFacts
from pollerd.storage.notifications import NotificationStore

# Unsubscribe links: a token of the daemon names one rule and one channel.
#
# Leaving needs no login (RFC 8058). A link can do nothing else, and holds as long as the daemon has its secret key.

_PREFIX = "/unsubscribe"


def purpose_of(channel_id: int, rule_id: int) -> str:
    """Returns what a link's token says."""
    return f"unsubscribe:{channel_id}:{rule_id}"


def link_of(base_url: str, token: str, channel_id: int, rule_id: int) -> str:
    """Returns the link; base_url: where users reach the daemon."""
    return f"{base_url}{_PREFIX}/{channel_id}/{rule_id}/{token}"


Work = Callable[..., Awaitable[Any]]
"""Runs a function with its arguments in a worker process."""
_HERE_BYTES = 64 * 1024
_WITH_LINES = 20
"""Number of events up to which differences are shown."""
_NO_LINES = CutLines((), (), cut=False)


@dataclass(frozen=True, kw_only=True)
class Composer:
    """What all messages share.

    public_url: where users reach the daemon, without a slash at its end; empty: nowhere.
    """

    store: NotificationStore
    work: Work
    render: Work
    """As `work`, for templates: with less patience."""
    public_url: str = ""

    async def compose(
        self,
        claim: ClaimedMessage,
        look: Look,
        template: tuple[str, Medium] | None = None,
        *,
        has_links: bool = False,
    ) -> Message:
        """Returns the message of these notices, under their id. Raises DatabaseUnavailableError.

        template: of the channel, and what it writes; where it fails, the built-in body stays. has_links: whether
        readers can leave the rule of the first event by a link.
        """
        if has_links and self.public_url.startswith("https://"):
            ids = (claim.channel_id, claim.notices[0].rule_id)
            token = self.store.channels.token_of(purpose_of(*ids))
            look = replace(look, unsubscribe_url=link_of(self.public_url, token, *ids) if token else "")
        facts = claim.facts or await self.store.log.facts(claim.notices, _WITH_LINES)
        events = [await self._event(fact) for fact in facts]
        message = replace(_message(events, claim, look), id=claim.message_id)
        return message if template is None else await self._by_template(message, *template)

    async def _by_template(self, message: Message, template: str, medium: Medium) -> Message:
        rendered: str | PollerdError
        try:
            rendered = await self.render(render, template, medium, context_of(message, self.public_url))
        except (TemplateError, TooHeavyError) as error:
            rendered = error
        body = body_of(message, medium, rendered)
        if body.problem:
            log = structlog.get_logger("pollerd.notifications")
            log.warning(
                "template_failed", message_id=message.id, reason=body.problem, effect="the built-in message is sent"
            )
        if medium is Medium.TEXT:
            html = _as_html(body.text, message.subject)
            return replace(message, text=body.text, html=html, listed=len(message.events))  # the template lists them
        return replace(message, markdown=body.text)

    async def _event(self, facts: NoticeFacts) -> Event:
        notice = facts.notice
        data: dict[str, Any] = orjson.loads(notice.data)
        site = facts.site
        told = None
        if site is not None:
            told = EventSite(site.id, site.url, site.title, site.tags)
        elif notice.site_id is not None:
            told = EventSite(notice.site_id, notice.url or "")
        change = await self._change(facts, data) if notice.kind is EventKind.CHANGED else None
        link = f"{self.public_url}/changes/{change.id}" if self.public_url and change is not None else ""
        return Event(notice.event_id, notice.kind, notice.at, told, change, data, link)

    async def _change(self, facts: NoticeFacts, data: dict[str, Any]) -> EventChange:
        summary, media = str(data.pop("summary", "")), Media(data.pop("kind", Media.TEXT.value))
        change, notice = facts.change, facts.notice
        if change is None:
            return EventChange(notice.change_id or 0, media, summary, detected_at=notice.at)
        lines = await self._lines(facts, change.kind)
        return EventChange(
            id=change.id or 0,
            kind=change.kind,
            summary=change.summary,
            selection=change.selection,
            detected_at=change.detected_at,
            previous_poll_at=change.previous_poll_at,
            matters=change.matters,
            why=change.why,
            added=lines.added,
            removed=lines.removed,
            cut=lines.cut,
            values={name: reading.text for name, reading in facts.values.items() if not reading.problem},
        )

    async def _lines(self, facts: NoticeFacts, media: Media) -> CutLines:
        before, after = facts.before, facts.after
        if before is None or after is None:
            return _NO_LINES
        if len(before) + len(after) <= _HERE_BYTES:
            return lines_shown(before, after, media)
        try:
            lines: CutLines = await self.work(lines_shown, before, after, media)
        except TooHeavyError:
            return _NO_LINES
        return lines


def lines_shown(before: bytes, after: bytes, media: Media) -> CutLines:
    """Returns the lines of a change as a message shows them."""
    return cut_lines(changed_lines(before, after, media))


def _message(events: Sequence[Event], claim: ClaimedMessage, look: Look) -> Message:
    if claim.digest:
        return message_of_digest(events, look)
    return message_of_one(events[0], look) if len(events) == 1 else message_of_group(events, look)


def _as_html(text: str, title: str) -> str:
    """Returns a plain text as an HTML document."""
    head, body = escaped(title, Medium.HTML), escaped(text, Medium.HTML)
    beginning = f'<!DOCTYPE html><html><head><meta charset="utf-8"><title>{head}</title></head>'
    return f"{beginning}<body><pre>{body}</pre></body></html>"
