"""The inbox of changes, their differences, and what pages said."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Depends, Query, Request, Response

from pollerd.api.diff import Comparer, Difference, Form, describe, since_change, stored_pair
from pollerd.api.http import MAX_ID, ChangeId, Cursor, SiteId, Words
from pollerd.errors import NotFoundError
from pollerd.model import Change, Media
from pollerd.storage.changes import ChangeFilter
from pollerd.texts import _
from pollerd.web.http import Posted, query, within
from pollerd.web.page import Page, Shown, page_router

router = page_router()
_ROWS = 50
_SEARCHED = 100_000
"""Words are looked for in so many of the newest changes: each is read."""
_CONTEXT = 3
_DIFF_ROWS = 2_000
"""Most rows of a difference on a page; the whole is a file."""
_UNSEEN_COUNTED = 1_000
Text = Annotated[Words, Query(max_length=200)]
OptionalId = Annotated[int | None, Query(ge=1, le=MAX_ID)]
View = Annotated[str, Query(alias="view", pattern="^(inline|side)$")]


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
    unseen = await changes.count_unseen(reader, _UNSEEN_COUNTED)
    rules = await page.ports.store.notifications.rules.all()
    older = {**filters, "cursor": changes_page.next_cursor}
    return page.show(
        "changes.html",
        changes=changes_page.items,
        sent=await changes.sent_by([change.id for change in changes_page.items]),
        unseen=unseen,
        unseen_text=f"{unseen:,}"
        if unseen < _UNSEEN_COUNTED
        else _("more than {unseen_counted:,}", unseen_counted=_UNSEEN_COUNTED),
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
