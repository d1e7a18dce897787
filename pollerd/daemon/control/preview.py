"""Previews of selections: a page is fetched as by a poll, and the parts that they keep are shown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import structlog
from msgspec.structs import replace

from pollerd.daemon.faults import reason
from pollerd.daemon.pages import PageRequests
from pollerd.daemon.runtime import Runtime
from pollerd.errors import InvalidValueError, NotFoundError
from pollerd.fetching.request import Request, own_headers
from pollerd.inheritance import inherit, selections_of_tags
from pollerd.lists.recognise import Recognition, recognise
from pollerd.model import (
    DEFAULT_SELECTION,
    Media,
    Outcome,
    OutcomeKind,
    SelectionPreview,
    SelectionState,
    Site,
    Validators,
)
from pollerd.rendering.settings import DEFAULT_RENDER_COST
from pollerd.shown import SHOWN
from pollerd.site_settings import SiteSpec
from pollerd.storage.changes import ChangeFilter
from pollerd.storage.history import ReadingFilter
from pollerd.storage.store import Store
from pollerd.storage.values import SiteContext
from pollerd.texts import N_, _

if TYPE_CHECKING:  # loaded with the first preview
    from pollerd.detection.selection.picker import Offer, PageLine
    from pollerd.detection.selection.preview import EarlierReading, EarlierVersion, SelectionTrial

T = TypeVar("T")
_AT_ONCE = 2
_EARLIER_MOST = 5
_TRIED_CHANGES = 10
_VALUES_READ = 500
_OFFERED_SELECTORS = 100
_KEPT_BYTES = 32 * 1024 * 1024
"""Most bytes of pages that are kept in memory, for the forms of sites."""
_KEPT_OF_SITE = 5
_TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class PagePreview:
    """What selections would keep of a page."""

    __pydantic_config__ = SHOWN
    url: str
    outcome: OutcomeKind | None
    """Of the fetch; None: a stored content was taken."""
    status: int | None
    detail: str
    retry_after: float | None
    """Seconds, where the page may not be fetched now."""
    selections: tuple[SelectionPreview, ...]
    """Empty without a page."""
    recognised: Recognition | None
    """What the address is, and what is in the way of watching it; None: a stored content was taken."""


@dataclass(frozen=True, slots=True)
class KeptPage:
    """A page that was read for the form of its site."""

    url: str
    body: bytes
    content_type: str | None
    read_at: float
    """Epoch s."""
    media: Media
    lines: tuple[PageLine, ...]
    """To click on; none if it is neither HTML nor JSON."""
    selectors: tuple[str, ...]
    """Of its parts, to be offered where one is typed."""
    picture: bytes | None
    """A PNG of a rendered page."""

    @property
    def size(self) -> int:
        """How many bytes it keeps."""
        return len(self.body) + len(self.picture or b"")


class PreviewControl:
    """Makes previews, within politeness, robots.txt and budget, a few at a time."""

    def __init__(self, *, store: Store, requests: PageRequests, runtime: Runtime) -> None:
        self._store, self._requests = store, requests
        self._workers = runtime.workers
        self._log = structlog.get_logger("pollerd.control")
        self._turn = asyncio.Semaphore(_AT_ONCE)
        self._clock = runtime.clock
        self._kept: dict[int, list[KeptPage]] = {}
        """Site id -> its pages that were read, newest last; the site whose page was read last is last."""

    async def of_url(self, spec: SiteSpec) -> PagePreview:
        """Gets a page as a poll of such a site would, and shows what its selections keep of it.

        At the URL of a site it is asked as that site is, where `spec` says nothing else, and compared with the
        stored contents. Raises InvalidValueError if the page takes more time or memory than a selection may use.
        """
        site = await self._store.sites.find(spec.url)
        context = SiteContext(0, spec.url) if site is None else await self._context(site)
        access, render = spec.access or context.access, spec.render or context.render
        context = replace(context, access=access, render=render)
        outcome = await self._fetched(context, spec.spelling or context.spelling or spec.url)
        if outcome.body is None:
            return _of_fetch(spec.url, outcome, (), recognise(outcome, spec.url))
        recognised = await self._read(context, "url", recognise, outcome, spec.url)
        stored, earlier = ({}, {}) if site is None else await self._known(site, spec.selections)
        page = (outcome.body, outcome.content_type, spec.url)
        preview = await self._preview(context, spec.selections, *page, stored, earlier)
        return _of_fetch(spec.url, outcome, preview, recognised)

    async def of_stored(self, site_id: int, selections: str) -> PagePreview:
        """Shows what the selections keep of the site's stored content, which is text: without elements.

        Raises NotFoundError without a site or a content, InvalidValueError as `of_url`.
        """
        site = await self._store.sites.get(site_id)
        content_id = (await self._context(site)).content_id
        if content_id is None:
            raise NotFoundError(N_("stored content of site"), site_id)
        content = await self._store.contents.get(content_id)
        stored, earlier = await self._known(site, selections)
        page = (content.body, _TEXT, site.spec.url)
        preview = await self._preview(await self._context(site), selections, *page, stored, earlier)
        return PagePreview(site.spec.url, None, None, "", None, preview, None)

    async def fetch_as(self, site: Site, spec: SiteSpec) -> tuple[Outcome, Recognition]:
        """Gets the page of a site as a poll with other settings of its own would, and says what came."""
        context = await self._context(site)
        inherited = inherit(spec, self._store.sites.tags.in_force)
        context = replace(context, access=inherited.access, render=inherited.render)
        outcome = await self._fetched(context, spec.sent_url)
        if outcome.body is None:
            return outcome, recognise(outcome, spec.url)
        return outcome, await self._read(context, "url", recognise, outcome, spec.url)

    # For the form of a site: its page is read once, and kept while the form is filled in.

    async def read_site(self, site_id: int) -> Outcome:
        """Gets the page of a site as a poll would, and keeps it for `try_selection`. Raises NotFoundError."""
        site = await self._store.sites.get(site_id)
        context = await self._context(site)
        outcome = await self._fetched(context, context.spelling or site.spec.url, picture=True)
        if outcome.body is not None:
            parts = await self._parts(context, outcome)
            read = (outcome.body, outcome.content_type, self._clock())
            page = KeptPage(site.spec.url, *read, *parts, outcome.screenshot)
            pages = [kept for kept in self._kept.pop(site_id, []) if kept.url == page.url]
            self._kept[site_id] = [*pages, page][-_KEPT_OF_SITE:]
            self._forget_oldest()
        return outcome

    def pages_of(self, site: Site) -> list[KeptPage]:
        """Returns the pages of a site that were read and are still kept, newest last."""
        return [page for page in self._kept.get(site.id, ()) if page.url == site.spec.url]

    async def try_selection(self, site: Site, selections: str, name: str) -> SelectionTrial:
        """Tries a selection on the page of a site that was read last, and on the site's last changes.

        selections: the site's own, as returned by `check_selections`; what its tags say is added. Raises NotFoundError
        if no page is kept, InvalidValueError as `of_url`.
        """
        from pollerd.detection.selection.preview import TriedPage, trial

        pages = self.pages_of(site)
        if not pages:
            raise NotFoundError(N_("page of site"), site.id)
        context = await self._context(site)
        tried = TriedPage(pages[-1].body, pages[-1].content_type, site.spec.url, context.access.pdf_password)
        states = {state.name: state for state in await self._store.history.selection_states(site.id)}
        versions = await self._earlier(context, name, states.get(name), _TRIED_CHANGES)
        history = await self._values(site.id, name)
        joined = selections_of_tags(selections, context.tags, self._store.sites.tags.in_force) or selections
        arguments = (joined, name, tried, versions, history)
        return await self._read(context, "selections", trial, *arguments)

    async def offers(self, site: Site, line: int) -> list[Offer]:
        """Returns what a click on a line of the page of a site that was read last can mean; none without such a line.

        Selectors pick the same in all its pages that are kept, and use no label that a stored version lacks. Raises
        InvalidValueError as `of_url`.
        """
        from pollerd.detection.selection.picker import offers
        from pollerd.detection.selection.picker_json import json_offers

        context, pages = await self._context(site), self.pages_of(site)[::-1]
        bodies = [(page.body, page.content_type) for page in pages if page.media is pages[0].media]
        texts = list[str]()
        if not context.selections:  # else they are of a part of the page
            versions = await self._earlier(context, DEFAULT_SELECTION, None, _TRIED_CHANGES)
            texts = [version.after.decode("utf-8", "replace") for version in versions]
        if not bodies:
            return []
        made = json_offers if pages[0].media is Media.JSON else offers
        return await self._read(context, "page", made, bodies, line, texts)

    async def _parts(
        self, context: SiteContext, outcome: Outcome
    ) -> tuple[Media, tuple[PageLine, ...], tuple[str, ...]]:
        """Returns what a page is, its lines, and the selectors of its parts."""
        from pollerd.detection.media import classify
        from pollerd.detection.selection.picker import parts_of
        from pollerd.detection.selection.picker_json import json_parts

        assert outcome.body is not None
        kinds = classify(outcome.body, outcome.content_type)[0]
        media = next((media for media in (Media.JSON, Media.HTML) if media in kinds), kinds[0])
        if media not in (Media.JSON, Media.HTML):
            return media, (), ()
        page = (outcome.body, outcome.content_type)
        if media is Media.JSON:
            lines, selectors = await self._read(context, "page", json_parts, *page)
        else:
            lines, selectors = await self._read(context, "page", parts_of, *page, outcome.boxes)
        return media, lines, tuple(selectors[:_OFFERED_SELECTORS])

    def _forget_oldest(self) -> None:
        while sum(page.size for pages in self._kept.values() for page in pages) > _KEPT_BYTES:
            oldest = next(iter(self._kept))
            if len(self._kept[oldest]) > 1:
                del self._kept[oldest][0]
            elif len(self._kept) > 1:
                del self._kept[oldest]
            else:
                return

    async def _values(self, site_id: int, selection: str) -> list[EarlierReading]:
        from pollerd.detection.selection.preview import EarlierReading

        page = await self._store.history.list_readings(site_id, ReadingFilter(None, selection, None), _VALUES_READ)
        return [EarlierReading(reading.name, reading.at, reading.value) for reading in page.items]

    async def _fetched(self, context: SiteContext, url: str, *, picture: bool = False) -> Outcome:
        access = context.access
        body = None if access.body is None else access.body.encode()
        request = Request(url, Validators(), own_headers(access), access.proxy, body, picture=picture)
        cost = DEFAULT_RENDER_COST if context.render else 1.0
        async with self._turn:
            return await self._requests.get(context, request, cost=cost, patience_seconds=0.0)

    async def _preview(
        self, context: SiteContext, selections: str, *page_and_known: object
    ) -> tuple[SelectionPreview, ...]:
        from pollerd.detection.selection.preview import preview

        page = (selections, *page_and_known, context.access.pdf_password)
        return await self._read(context, "selections", preview, *page)

    async def _read(self, context: SiteContext, field: str, work: Callable[..., T], *arguments: object) -> T:
        """Returns the result of work on the page. Raises InvalidValueError of the field if the work fails."""
        try:
            return await self._workers.do(work, *arguments)
        except Exception as error:
            # The page and the selections are the caller's: what they do to a parser is said to the caller, and logged.
            self._log.warning("preview_failed", url=context.url, exc_info=error)
            allowed = _("such that the page can be read ({reason})", reason=reason(context, error))
            raise InvalidValueError(field, allowed, "others") from error

    async def _context(self, site: Site) -> SiteContext:
        return (await self._store.sites.contexts([site.id]))[site.id]

    async def _known(self, site: Site, selections: str) -> tuple[dict[str, bytes], dict[str, list[EarlierVersion]]]:
        """Returns the current contents and the last changes of the selections that keep what they kept before."""
        from pollerd.detection.selection.selection import compiled

        versions = {selection.name: selection.version for selection in compiled(selections).all}
        states = {state.name: state for state in await self._store.history.selection_states(site.id)}
        same = [state for name, state in states.items() if versions.get(name) == state.version]
        stored, context = await self._current(same), await self._context(site)
        earlier = {state.name: await self._earlier(context, state.name, state) for state in same}
        return stored, {name: [version for version in all_ if version.kept_by] for name, all_ in earlier.items()}

    async def _current(self, states: list[SelectionState]) -> dict[str, bytes]:
        ids = [state.content_id for state in states if state.content_id is not None]
        contents = await self._store.contents.load(ids) if ids else {}
        return {state.name: contents[state.content_id] for state in states if state.content_id in contents}

    async def _earlier(
        self, context: SiteContext, selection: str, state: SelectionState | None, most: int = _EARLIER_MOST
    ) -> list[EarlierVersion]:
        """Returns the last changes of a selection, newest first; state: as it stands, None: it was not read yet."""
        from pollerd.detection.selection.preview import EarlierVersion
        from pollerd.detection.selection.selection import compiled

        change_filter = ChangeFilter(site_id=context.site_id, selection=selection)
        changes = (await self._store.changes.page(change_filter, most)).items
        kept_by = dict[int, str](
            dict.fromkeys(await self._store.changes.whole_pages_among([c.id for c in changes]), "")
        )
        if state is not None and state.version in {kept.version for kept in compiled(context.selections).all}:
            # From its content back, each change began with the content that the one before it led to. Where that
            # breaks off, the selection began anew: older texts are of other steps.
            expected = state.content_id
            for change in changes:
                if change.id in kept_by or change.after_content_id != expected:
                    break
                kept_by[change.id], expected = context.selections, change.before_content_id
        ids = {
            content_id
            for change in changes
            for content_id in (change.before_content_id, change.after_content_id)
            if content_id
        }
        contents = await self._store.contents.load(list(ids)) if ids else {}
        return [
            EarlierVersion(change.id, change.detected_at, contents[before], contents[after], kept_by.get(change.id))
            for change in changes
            if (before := change.before_content_id) in contents and (after := change.after_content_id) in contents
        ]


def _of_fetch(
    url: str, outcome: Outcome, selections: tuple[SelectionPreview, ...], recognised: Recognition
) -> PagePreview:
    return PagePreview(url, outcome.kind, outcome.status, outcome.detail, outcome.retry_after, selections, recognised)
