"""The inbox of changes, their differences, and what pages said."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, timedelta, tzinfo
from http import HTTPStatus
from itertools import groupby, takewhile
from typing import Annotated, Any

from fastapi import Depends, Query, Request, Response

from pollerd.api.diff import Comparer, Difference, Form, describe, since_change, stored_pair
from pollerd.api.http import MAX_ID, ChangeId, Cursor, SiteId, Words
from pollerd.errors import NotFoundError
from pollerd.model import Change, Media
from pollerd.scheduling.windows import local_time
from pollerd.storage.changes import ChangeFilter
from pollerd.texts import _
from pollerd.web.http import Posted, query, within
from pollerd.web.page import UNREAD_COUNTED, Page, Shown, page_router, shown_url
from pollerd.web.words import DAY_WORDS

router = page_router()
_ROWS = 50
_SEARCHED = 100_000
"""Words are looked for in so many of the newest changes: each is read."""
_CONTEXT = 3
_DIFF_ROWS = 2_000
"""Most rows of a difference on a page; the whole is a file."""
Text = Annotated[Words, Query(max_length=200)]
OptionalId = Annotated[int | None, Query(ge=1, le=MAX_ID)]
View = Annotated[str, Query(alias="view", pattern="^(inline|side)$")]

# The list as people read it: by days of the reader, and changes that say the same of sites of one tag as one row.

_ALIKE, _NAMED = 2, 3
"""Sites of a group at least, and titles that it names."""


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """One change, or several of one day that say the same, of several sites with one tag."""

    changes: list[Change]
    """Newest first."""
    tag: str = ""
    """Empty: it is one change."""

    @property
    def sites(self) -> int:
        """How many sites they are of."""
        return len({change.site_id for change in self.changes})

    @property
    def titles(self) -> str:
        """The first titles, the words in which all of them begin only once: "Article 35, 62, 146 …"."""
        titles = list(dict.fromkeys(change.title or shown_url(change.url) for change in self.changes))
        words = [title.split(" ") for title in titles]
        common = len(list(takewhile(lambda same: len(set(same)) == 1, zip(*words, strict=False))))
        rest = [" ".join(of[common:]) or title for of, title in zip(words, titles, strict=True)]
        return ", ".join([titles[0], *rest[1:_NAMED]]) + (" …" if len(titles) > _NAMED else "")


@dataclass(frozen=True, slots=True)
class ChangeDay:
    """A day of the list."""

    name: str
    rows: list[ChangeRow]


def days_of(
    changes: Sequence[Change], tags: Mapping[int, Sequence[str]], now: float, zone: tzinfo = UTC
) -> list[ChangeDay]:
    """Returns changes, newest first, by days of the zone. tags: of each site. now: epoch s."""
    days, today = list[ChangeDay](), local_time(zone, now).date()
    for day, of_day in groupby(changes, lambda change: local_time(zone, change.detected_at).date()):
        if day == today:
            name = _("Today")
        elif day == today - timedelta(days=1):
            name = _("Yesterday")
        else:
            name = f"{_(list(DAY_WORDS.values())[day.weekday()])} {day.isoformat()}"
        days.append(ChangeDay(name, _grouped(list(of_day), tags)))
    return days


def _grouped(changes: list[Change], tags: Mapping[int, Sequence[str]]) -> list[ChangeRow]:
    """Returns the rows of a day; a group stands at the place of its newest change."""
    alike: dict[tuple[str, str], list[Change]] = {}
    for change in changes:
        for tag in tags.get(change.site_id, ()) if change.summary else ():
            alike.setdefault((change.summary, tag), []).append(change)
    rows, done = list[ChangeRow](), set[int | None]()
    for change in changes:
        if change.id in done:
            continue
        groups = [(tag, alike[change.summary, tag]) for tag in tags.get(change.site_id, ()) if change.summary]
        groups = [(tag, [other for other in group if other.id not in done]) for tag, group in groups]
        row = max((ChangeRow(group, tag) for tag, group in groups), key=lambda row: row.sites, default=None)
        if row is None or row.sites < _ALIKE:
            row = ChangeRow([change])
        done.update(other.id for other in row.changes)
        rows.append(row)
    return rows


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Which changes the list shows: the query of its address."""

    q: Text = ""
    tag: Text = ""
    site: OptionalId = None
    rule: OptionalId = None
    show: Annotated[str, Query(pattern="^(unseen|all)$")] = "unseen"
    matters: Annotated[str, Query(pattern="^(true|all)$")] = "true"

    @property
    def narrowed(self) -> bool:
        """Whether something is searched for."""
        return bool(self.q or self.tag or self.site or self.rule)

    def filter(self, reader: str, after: int | None) -> ChangeFilter:
        """Returns the filter of the database; words are looked for in changes with ids above `after` only."""
        return ChangeFilter(
            site_id=self.site,
            tag=self.tag or None,
            matters=True if self.matters == "true" else None,
            unseen_by=reader if self.show == "unseen" else None,
            words=self.q or None,
            rule_id=self.rule,
            after=after,
        )


@router.get("/changes")
async def list_changes(page: Shown, asked: Annotated[_Wanted, Depends()], cursor: Cursor = None) -> Response:
    """Changes, newest first; those that were not seen, unless all are asked for."""
    changes, reader, filters = page.ports.store.changes, page.reader, asdict(asked)
    newest = await changes.last_id()
    after = await changes.id_before_newest(_SEARCHED) if asked.q else None
    changes_page = await changes.page(asked.filter(reader, after), _ROWS, cursor)
    unseen = page.unread if page.unread is not None else await changes.count_unseen(reader, UNREAD_COUNTED)
    rules = await page.ports.store.notifications.rules.all()
    older, items = {**filters, "cursor": changes_page.next_cursor}, changes_page.items
    tags = await page.ports.store.sites.tags_of(list({change.site_id for change in items}))
    ids = [change.id for change in items]
    zone = page.zone
    return page.show(
        "changes.html",
        days=days_of(items, tags, page.now, zone or UTC),
        zone_known=zone is not None,
        count=len(items),
        sent=await changes.sent_by(ids),
        unseen=unseen,
        unread=set(ids) if asked.show == "unseen" else await changes.unseen_among(reader, ids),
        unseen_text=f"{unseen:,}"
        if unseen < UNREAD_COUNTED
        else _("more than {unseen_counted:,}", unseen_counted=UNREAD_COUNTED),
        filters=filters,
        narrowed=asked.narrowed,
        newest=newest,
        searched=_SEARCHED if after else None,
        rules=[(rule.id, rule.spec.name) for rule in rules],
        here=f"/changes{query(**filters)}",
        mark=await changes.last_mark(reader, page.now),
        cursor=cursor,
        older=f"/changes{query(**older)}" if changes_page.next_cursor else None,
    )


@router.post("/changes/seen")
async def put_seen(page: Shown, form: Posted) -> Response:
    """Notes which changes were seen, or were not; a script gets no page for an answer.

    A form can be undone, also that of a script, if it says so.
    """
    changes, numbers, seen = page.ports.store.changes, form.numbers("id"), not form.has("unseen")
    if form.has("undo"):
        with suppress(NotFoundError):  # undone already
            await changes.undo_mark(page.reader, numbers[0] if numbers else 0, page.now)
        return page.go("/changes")
    ranges, count = [(number, number) for number in numbers], len(numbers)
    if form.has("all"):
        ranges, count = [(1, max(form.numbers("newest"), default=0))], 0
    is_undoable = bool(ranges) and (form.has("kept") or not page.is_fragment)
    await changes.put_seen(page.reader, ranges, seen=seen, undoable=count if is_undoable else None, now=page.now)
    if page.is_fragment:
        return Response(status_code=HTTPStatus.NO_CONTENT)
    return page.go(within(form.text("back"), "/changes"))


@router.get("/changes/{change_id:id}")
async def show_change(
    page: Shown, request: Request, change_id: ChangeId, view: View = "inline", since: OptionalId = None
) -> Response:
    """One change with its difference; a script gets the difference alone."""
    change, others = await page.ports.store.changes.get(change_id), []
    if not page.is_fragment:
        earlier = await page.ports.store.changes.page(ChangeFilter(site_id=change.site_id), _ROWS)
        others = [item for item in earlier.items if (item.id or 0) < change_id and item.selection == change.selection]
    return await _difference(page, request, change, view, since, others)


@router.get("/sites/{site_id:id}/compare")
async def compare(
    page: Shown,
    site_id: SiteId,
    first: Annotated[int, Query(alias="from", ge=1, le=MAX_ID)],
    last: Annotated[int, Query(alias="to", ge=1, le=MAX_ID)],
) -> Response:
    """Goes to the difference between what two changes of a site led to."""
    if first == last:
        return page.go(f"/changes/{last}")
    first, last = sorted((first, last))
    return page.go(f"/changes/{last}?since={first}")


async def _difference(
    page: Page, request: Request, change: Change, view: str, since: int | None, others: list[Change]
) -> Response:
    store = page.ports.store
    comparer: Comparer = request.app.state.comparer
    values: dict[str, Any] = {"change": change, "view": view, "since": since, "others": others}
    if comparer.full:
        return page.show(
            "change.html", status=HTTPStatus.SERVICE_UNAVAILABLE, difference=None, why="busy", cut=False, **values
        )
    async with comparer.turn():
        pair = await stored_pair(store.contents, await since_change(store.changes, change, since))
        if pair is None:
            return page.show("change.html", difference=None, why="pruned", cut=False, **values)
        difference = await asyncio.to_thread(describe, pair, Form.SIDE_BY_SIDE, _CONTEXT)
    cut = _cut(difference)
    if cut:
        difference.rows = (difference.rows or [])[:_DIFF_ROWS]
    return await asyncio.to_thread(page.show, "change.html", difference=difference, why="", cut=cut, **values)


def _cut(difference: Difference) -> bool:
    return difference.truncated or len(difference.rows or ()) > _DIFF_ROWS


@router.get("/sites/{site_id:id}/text")
async def show_text(page: Shown, site_id: SiteId) -> Response:
    """What the page said when it was last read: as text, whatever it is."""
    store = page.ports.store
    site = await store.sites.get(site_id)
    newest = await store.changes.page(ChangeFilter(site_id=site_id), 1)
    content_id = newest.items[0].after_content_id if newest.items else None
    if content_id is None:
        contexts = await store.sites.contexts([site_id])
        content_id = contexts[site_id].content_id if site_id in contexts else None
    content = None if content_id is None else await store.contents.get(content_id)
    text = None if content is None or content.media is Media.BINARY else content.body.decode("utf-8", "replace")
    mask = (await page.ports.control.sites.explain(site_id)).mask
    return await asyncio.to_thread(page.show, "text.html", site=site, text=text, content=content, mask=mask)


ROUTERS = (router,)
