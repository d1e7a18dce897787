"""The difference between two contents.

Route of the difference between the contents before and after a change.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from http import HTTPStatus
from typing import Annotated, Any, Literal, TypeVar

from fastapi import Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from pollerd.api.http import MAX_ID, ChangeId, Daemon, api_router
from pollerd.api.problems import RETRY_SECONDS, problem
from pollerd.detection.edits import Block, Kind, Span, StepBudget, compare, hunks, marks
from pollerd.errors import InvalidValueError, NotFoundError
from pollerd.model import Change, Media
from pollerd.shown import Moment
from pollerd.storage.changes import ChangeStore
from pollerd.storage.contents import Content, ContentStore
from pollerd.texts import N_, _, n_
from pollerd.timestamps import rfc3339

# Renders the difference of two contents, as unified text or as rows side by side.

MAX_LINES = 100_000
"""Most lines compared of either content."""
MAX_SHOWN = 20_000
"""Most lines of text, or rows, in one answer."""
T = TypeVar("T")
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Form(StrEnum):
    """How a difference is shown."""

    UNIFIED = "unified"
    SIDE_BY_SIDE = "side-by-side"


class Side(BaseModel):
    """One of the two contents."""

    at: Moment | None = Field(description="when it was seen: the change lies between the two moments")
    kind: Media
    bytes: int
    lines: int | None = Field(description="null: it is binary")


class Row(BaseModel):
    """One row of two columns; a side that has no line here is null. Lines count from 1.

    Marks are parts [from, to) of the text, in characters, that differ in a line that was replaced.
    """

    model_config = ConfigDict(from_attributes=True)

    kind: Kind
    left_line: int | None
    left_text: str | None
    left_marks: list[Span]
    right_line: int | None
    right_text: str | None
    right_marks: list[Span]


class Difference(BaseModel):
    """What differs. `text` is given for format unified, `rows` for side-by-side; neither where a side is binary."""

    change_id: int
    format: Form
    before: Side
    after: Side
    added: int | None = Field(description="lines inserted, or put instead of others; null: a side is binary")
    removed: int | None = Field(description="lines deleted, or put out of place; null: a side is binary")
    coarse: bool = Field(description="some parts differ too much for a line-by-line diff: they are shown as replaced")
    truncated: bool = Field(description=f"only {MAX_LINES} lines a side are compared and {MAX_SHOWN} are shown")
    text: str | None
    rows: list[Row] | None


@dataclass(frozen=True, slots=True)
class Pair:
    """A change with the contents before and after it."""

    change: Change
    before: Content
    after: Content

    @property
    def binary(self) -> bool:
        """Whether there are no lines to compare."""
        return Media.BINARY in (self.before.media, self.after.media)


def describe(pair: Pair, form: Form, context: int) -> Difference:
    """Returns the difference with `context` equal lines around. CPU-bound: a second or two for the largest contents."""
    before, cut_before = _lines(pair.before)
    after, cut_after = _lines(pair.after)
    change, binary, budget_left = pair.change, pair.binary, StepBudget()
    comparison = compare([], [], budget_left) if binary else compare(before, after, budget_left)
    groups = hunks(comparison.blocks, context)
    text: list[str] | None = None
    rows: list[Row] | None = None
    cut_shown = False
    if not binary and form is Form.UNIFIED:
        text, cut_shown = _first(_unified(groups, before, after))
    elif not binary:
        rows, cut_shown = _first(_rows(groups, before, after, budget_left))
    different = [block for block in comparison.blocks if block.kind != "equal"]
    return Difference(
        change_id=change.id or 0,
        format=form,
        before=_side(pair.before, change.previous_poll_at),
        after=_side(pair.after, change.detected_at),
        added=None if binary else sum(block.right[1] - block.right[0] for block in different),
        removed=None if binary else sum(block.left[1] - block.left[0] for block in different),
        coarse=comparison.coarse,
        truncated=cut_before or cut_after or cut_shown,
        text=None if text is None else _header(pair) + "".join(f"{line}\n" for line in text),
        rows=rows,
    )


def side_by_side(before: Sequence[str], after: Sequence[str]) -> list[Row]:
    """Returns the rows of two texts, given by lines, that were never stored: all of them, equal ones too. CPU-bound."""
    budget_left = StepBudget()
    comparison = compare(before[:MAX_LINES], after[:MAX_LINES], budget_left)
    return _first(_rows(hunks(comparison.blocks, MAX_LINES), before, after, budget_left))[0]


def plain(pair: Pair, difference: Difference) -> str:
    """Returns the unified difference as plain text. Replaces terminal control characters."""
    if difference.text is None:
        before, after = (
            f"{side.kind.value}, {n_('{count} byte', '{count} bytes', side.bytes)}"
            for side in (difference.before, difference.after)
        )
        return _header(pair) + _("Binary contents differ: {before}, then {after}\n", before=before, after=after)
    notes = []
    if difference.coarse:
        notes.append(_("\\ Some parts differ too much for a line-by-line diff\n"))
    if difference.truncated:
        notes.append(
            _(
                "\\ Cut: {max_lines} lines a side are compared, {max_shown} are shown\n",
                max_lines=MAX_LINES,
                max_shown=MAX_SHOWN,
            )
        )
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", difference.text) + "".join(notes)


def _lines(content: Content) -> tuple[list[str], bool]:
    """Returns the content's lines, and whether some were left out."""
    if content.media is Media.BINARY or not content.body:
        return [], False
    lines = content.body.decode("utf-8", "replace").removesuffix("\n").split("\n")
    return lines[:MAX_LINES], len(lines) > MAX_LINES


def _side(content: Content, at: float | None) -> Side:
    count = content.body.removesuffix(b"\n").count(b"\n") + 1 if content.body else 0
    lines = None if content.media is Media.BINARY else count
    return Side(at=at, kind=content.media, bytes=len(content.body), lines=lines)


def _first(items: Iterator[T]) -> tuple[list[T], bool]:
    """Returns as many items as may be shown, and whether there are more."""
    first = [item for _i, item in zip(range(MAX_SHOWN), items, strict=False)]
    return first, next(items, None) is not None


def _header(pair: Pair) -> str:
    moments = (pair.change.previous_poll_at, pair.change.detected_at)
    before, after = ("unknown" if at is None else rfc3339(at) for at in moments)
    return f"--- {pair.change.url}\t{before}\n+++ {pair.change.url}\t{after}\n"


def _unified(groups: Iterator[list[Block]], before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    for group in groups:
        left, right = (group[0].left[0], group[-1].left[1]), (group[0].right[0], group[-1].right[1])
        yield f"@@ -{_range(left)} +{_range(right)} @@"
        for block in group:
            if block.kind == "equal":
                yield from (f" {line}" for line in before[slice(*block.left)])
            else:
                yield from (f"-{line}" for line in before[slice(*block.left)])
                yield from (f"+{line}" for line in after[slice(*block.right)])


def _range(span: Span) -> str:
    """Returns a range as in unified diffs: an empty one names the line before it."""
    length = span[1] - span[0]
    if length == 1:
        return str(span[0] + 1)
    return f"{span[0] + (length > 0)},{length}"


def _rows(
    groups: Iterator[list[Block]], before: Sequence[str], after: Sequence[str], budget_left: StepBudget
) -> Iterator[Row]:
    for group in groups:
        for block in group:
            both = min(block.left[1] - block.left[0], block.right[1] - block.right[0])
            for n in range(both):
                yield _paired(block, before, after, n, budget_left)
            yield from (_alone("delete", i, before[i]) for i in range(block.left[0] + both, block.left[1]))
            yield from (_alone("insert", j, after[j]) for j in range(block.right[0] + both, block.right[1]))


def _paired(block: Block, before: Sequence[str], after: Sequence[str], n: int, budget_left: StepBudget) -> Row:
    i, j = block.left[0] + n, block.right[0] + n
    left, right = ([], []) if block.kind == "equal" else marks(before[i], after[j], budget_left)
    return Row.model_construct(
        kind=block.kind,
        left_line=i + 1,
        left_text=before[i],
        left_marks=left,
        right_line=j + 1,
        right_text=after[j],
        right_marks=right,
    )


def _alone(kind: Literal["insert", "delete"], n: int, text: str) -> Row:
    deleted = kind == "delete"
    return Row.model_construct(
        kind=kind,
        left_line=n + 1 if deleted else None,
        left_text=text if deleted else None,
        left_marks=[],
        right_line=None if deleted else n + 1,
        right_text=None if deleted else text,
        right_marks=[],
    )


router = api_router("/changes", tag="changes")
MAX_CONTEXT = 100_000
MAX_WAITING = 16
_EXAMPLE = "--- https://example.org/\t2026-01-31T12:00:00.000Z\n+++ …\n@@ -1 +1 @@\n-old words\n+new words\n"
_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"model": Difference, "content": {"text/plain": {"schema": {"type": "string"}, "example": _EXAMPLE}}},
}
_LIMITS = {
    "content_retention": N_("it was current longer ago than content_retention ({value:g} s) lets it be kept"),
    "content_cap_bytes": N_(
        "all contents together outgrew content_cap_bytes ({value:,} bytes), and its site keeps many"
    ),
    "keep_contents": N_("a version before this one kept only the newest keep_contents ({value}) of a site"),
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

    `unified` is text, or JSON where `Accept` prefers it; `side-by-side` is JSON. 410 if one of the contents was pruned,
    which names the limit (`content_retention`, `content_cap_bytes`); of binary contents only kind and size are shown.
    """
    change = await since_change(daemon.store.changes, await daemon.store.changes.get(change_id), since)
    comparer: Comparer = request.app.state.comparer
    if comparer.full:
        why, headers = _("too many differences are asked for at once"), {"Retry-After": str(RETRY_SECONDS)}
        return problem(HTTPStatus.SERVICE_UNAVAILABLE, why, kind="busy", headers=headers)
    as_json = form is Form.SIDE_BY_SIDE or _prefers_json(request.headers.get("accept", ""))
    async with comparer.turn():
        pair = await stored_pair(daemon.store.contents, change)
        if pair is None:
            return _pruned(change, *await daemon.store.contents.limit_passed(change))
        shown = await asyncio.to_thread(_shown, pair, form, context, as_json)
    headers = {"Vary": "Accept"}
    if not as_json:  # untrusted: a browser must save it, not show it
        headers["Content-Disposition"] = f'attachment; filename="change-{change_id}.diff"'
    return Response(shown, media_type="application/json" if as_json else "text/plain", headers=headers)


def _shown(pair: Pair, form: Form, context: int, as_json: bool) -> bytes:
    difference = describe(pair, form, context)
    text = difference.model_dump_json() if as_json else plain(pair, difference)
    return text.encode("utf-8", "replace")


async def since_change(store: ChangeStore, change: Change, since: int | None) -> Change:
    """Returns the change as it is seen by who knows what the earlier change `since` led to; None: as it is.

    Raises `NotFoundError`, and `InvalidValueError` for a change of another site or selection, or a later one.
    """
    if since is None:
        return change
    earlier = await store.get(since)
    known = (earlier.site_id, earlier.selection) == (change.site_id, change.selection)
    if not known or since > (change.id or 0):
        raise InvalidValueError("from", _("an earlier change of the same site and selection"), since)
    return replace(change, before_content_id=earlier.after_content_id, previous_poll_at=earlier.detected_at)


async def stored_pair(store: ContentStore, change: Change) -> Pair | None:
    """Returns the contents before and after; None if one was pruned, possibly just now."""
    if change.before_content_id is None or change.after_content_id is None:
        return None
    try:
        before = await store.get(change.before_content_id)
        return Pair(change, before, await store.get(change.after_content_id))
    except NotFoundError:
        return None


def _pruned(change: Change, limit: str, value: float) -> Response:
    """Returns the refusal. limit: the setting that pruned the content; value: its present value."""
    contents = {"before": change.before_content_id, "after": change.after_content_id}
    return problem(
        HTTPStatus.GONE,
        _("a content of this change was pruned: {limits}; its summary is kept", limits=_(_LIMITS[limit], value=value)),
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


ROUTERS = (router,)
