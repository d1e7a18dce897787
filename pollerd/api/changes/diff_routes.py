"""Route of the difference between the contents before and after a change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Query, Request, Response

from pollerd.api.changes.diff_render import Difference, Form, Pair, describe, plain
from pollerd.api.http.context import Daemon
from pollerd.api.http.parameters import MAX_ID, ChangeId
from pollerd.api.http.problems import RETRY_SECONDS, problem
from pollerd.api.http.routing import api_router
from pollerd.errors import InvalidValueError, NotFoundError
from pollerd.model import Change
from pollerd.storage import HistoryStore

router = api_router("/changes", tag="changes")
MAX_CONTEXT = 100_000
MAX_WAITING = 16
_EXAMPLE = "--- https://example.org/\t2026-01-31T12:00:00.000Z\n+++ …\n@@ -1 +1 @@\n-old words\n+new words\n"
_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"model": Difference, "content": {"text/plain": {"schema": {"type": "string"}, "example": _EXAMPLE}}},
}
_LIMITS = {
    "content_retention": "it was current longer ago than content_retention ({0:g} s) lets it be kept",
    "content_cap_bytes": "all contents together outgrew content_cap_bytes ({0:,} bytes), and its site keeps many",
    "keep_contents": "a version before this one kept only the newest keep_contents ({0}) of a site",
}
Context = Annotated[int, Query(ge=0, le=MAX_CONTEXT, description="equal lines around what differs")]


class Comparer:
    """Compares in a thread, one pair at a time: polling has priority."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._waiting = 0

    @property
    def full(self) -> bool:
        """Whether too many are waiting."""
        return self._waiting >= MAX_WAITING

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Waits for other comparisons. Load contents inside the block: they are large."""
        self._waiting += 1
        try:
            async with self._turn:
                yield
        finally:
            self._waiting -= 1


@router.get("/{change_id:id}/diff", response_class=Response, responses=_ANSWERS, summary="What changed")
async def diff_change(
    request: Request,
    daemon: Daemon,
    change_id: ChangeId,
    form: Annotated[Form, Query(alias="format")] = Form.UNIFIED,
    context: Context = 3,
    since: Annotated[
        int | None,
        Query(
            alias="from",
            ge=1,
            le=MAX_ID,
            description="an earlier change of the site: from what it led to",
            examples=[7],
        ),
    ] = None,
) -> Response:
    """The difference between what a reader saw before and after, line by line; with `from` since an earlier change.

    `unified` is text, or JSON where `Accept` prefers it; `side-by-side` is JSON. 410 where one of the contents was
    pruned, which names the limit (`content_retention`, `content_cap_bytes`); of binary contents only kind and size
    are told.
    """
    change = await since_change(daemon.store.history, await daemon.store.history.get_change(change_id), since)
    comparer: Comparer = request.app.state.comparer
    if comparer.full:
        why, headers = "too many differences are asked for at once", {"Retry-After": str(RETRY_SECONDS)}
        return problem(HTTPStatus.SERVICE_UNAVAILABLE, why, kind="busy", headers=headers)
    as_json = form is Form.SIDE_BY_SIDE or _prefers_json(request.headers.get("accept", ""))
    async with comparer.turn():
        pair = await stored_pair(daemon.store.history, change)
        if pair is None:
            return _pruned(change, *await daemon.store.history.limit_passed(change))
        shown = await asyncio.to_thread(_shown, pair, form, context, as_json)
    headers = {"Vary": "Accept"}
    if not as_json:  # untrusted: a browser must save it, not show it
        headers["Content-Disposition"] = f'attachment; filename="change-{change_id}.diff"'
    return Response(shown, media_type="application/json" if as_json else "text/plain", headers=headers)


def _shown(pair: Pair, form: Form, context: int, as_json: bool) -> bytes:
    difference = describe(pair, form, context)
    text = difference.model_dump_json() if as_json else plain(pair, difference)
    return text.encode("utf-8", "replace")


async def since_change(store: HistoryStore, change: Change, since: int | None) -> Change:
    """Returns the change as it is seen by who knows what the earlier change `since` led to; None: as it is.

    Raises `NotFoundError`, and `InvalidValueError` for a change of another site or selection, or a later one.
    """
    if since is None:
        return change
    earlier = await store.get_change(since)
    known = (earlier.site_id, earlier.selection) == (change.site_id, change.selection)
    if not known or since > (change.id or 0):
        raise InvalidValueError("from", "an earlier change of the same site and selection", since)
    return replace(change, before_content_id=earlier.after_content_id, previous_poll_at=earlier.detected_at)


async def stored_pair(store: HistoryStore, change: Change) -> Pair | None:
    """Returns the contents before and after; None if one was pruned, possibly just now."""
    if change.before_content_id is None or change.after_content_id is None:
        return None
    try:
        before = await store.get_content(change.before_content_id)
        return Pair(change, before, await store.get_content(change.after_content_id))
    except NotFoundError:
        return None


def _pruned(change: Change, limit: str, value: float) -> Response:
    """Returns the refusal. limit: the setting that pruned the content; value: its present value."""
    contents = {"before": change.before_content_id, "after": change.after_content_id}
    return problem(
        HTTPStatus.GONE,
        f"a content of this change was pruned: {_LIMITS[limit].format(value)}; its summary is kept",
        kind="content-pruned",
        limit=limit,
        pruned=[side for side, content in contents.items() if content is None],
        summary=change.summary,
    )


def _prefers_json(accept: str) -> bool:
    """Returns whether the `Accept` header prefers JSON to plain text."""
    weights = {"application/json": 0.0, "text/plain": 0.0}
    for part in accept.lower().split(","):
        media, *parameters = (word.strip() for word in part.split(";"))
        weight = next((p.removeprefix("q=") for p in parameters if p.startswith("q=")), "1")
        if media in weights and weight.replace(".", "", 1).isdecimal():
            weights[media] = float(weight)
    return weights["application/json"] > weights["text/plain"]
