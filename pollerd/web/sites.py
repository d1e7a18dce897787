"""The list of sites, and what is done to many of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Annotated, Any
from urllib.parse import urlencode

import orjson
from fastapi import Depends, Query, Response
from msgspec import structs

from pollerd.api.http import Caller, Words
from pollerd.api.inputs import check_selections
from pollerd.api.jobs import BulkChange
from pollerd.api.sites import MAX_CURSOR, NewSite, SiteSchema, number_of_sites, site_filter
from pollerd.errors import InvalidValueError, refusal
from pollerd.lists.recognise import AddressKind
from pollerd.model import JobAction, Site, SiteState
from pollerd.storage.site_order import SiteOrder
from pollerd.storage.values import SiteFilter
from pollerd.texts import N_, _, n_
from pollerd.urls import MAX_URL_LENGTH
from pollerd.web.explanation import rate_in_words
from pollerd.web.http import Posted, PostedForm, number_of, one_of, query, seconds_of, within
from pollerd.web.page import Page, Shown, page_router, take_look
from pollerd.web.plots import mini_strip
from pollerd.web.standing import StandingShown, standings
from pollerd.web.words import JOB_DONE

router = page_router(prefix="/sites")
_ROWS = 50
_STRIP_SECONDS = 86_400.0
Shared = Annotated[str, Query(max_length=MAX_URL_LENGTH)]
_LEAST_MOVE = 0.001
"""Percent by which a price has to move to matter: by anything."""
KINDS = {
    AddressKind.PAGE: N_("a page"),
    AddressKind.PRODUCT: N_("a page about a product"),
    AddressKind.FEED: N_("a feed"),
    AddressKind.LIST: N_("a list of addresses (sitemap)"),
    AddressKind.JSON: N_("data (JSON)"),
    AddressKind.PDF: N_("a PDF document"),
    AddressKind.TEXT: N_("plain text"),
    AddressKind.FILE: N_("a file without text: pollerd only sees that it differs"),
}
_SORTS = [
    ("-last_change", N_("last change")),
    ("-rate", N_("changes most often")),
    ("rate", N_("changes least often")),
    ("-failures", N_("most failures")),
    ("url", N_("address")),
    ("title", N_("title")),
    ("-last_poll", N_("last check")),
    ("next_poll", N_("next check")),
]
_RATES = [("24", N_("at least hourly")), ("1", N_("at least daily")), ("0.14", N_("at least weekly"))]
_SPANS = [("1h", N_("in the last hour")), ("1d", N_("in the last day")), ("7d", N_("in the last week"))]
_STATES = [(state.value, name) for state, name in (
    (SiteState.ACTIVE, N_("fine")), (SiteState.BACKING_OFF, N_("failing")), (SiteState.BLOCKED, N_("blocked")),
    (SiteState.GONE, N_("gone")), (SiteState.PAUSED, N_("paused")),
)]  # fmt: skip
Text = Annotated[Words, Query(max_length=200)]
LongCursor = Annotated[str | None, Query(max_length=MAX_CURSOR)]


@dataclass(frozen=True, slots=True)
class SitesWanted:
    """Which sites the list shows, and in what order: the query of its address."""

    q: Text = ""
    tag: Text = ""
    state: Text = ""
    rate_min: Text = ""
    """Least believed changes a day."""
    changed: Text = ""
    """A change was found within this time."""
    sort: Text = ""

    @property
    def narrowed(self) -> bool:
        """Whether not all sites are shown."""
        return bool(self.q or self.tag or self.state or self.rate_min or self.changed)

    def filter(self) -> SiteFilter:
        """Returns the filter of the database. Raises `InvalidValueError`."""
        return site_filter(
            q=self.q or None,
            tag=self.tag or None,
            state=one_of(SiteState, "state", self.state) if self.state else None,
            host=None,
            source=None,
            rate_min=_at_least_0("rate_min", self.rate_min, number_of),
            rate_max=None,
            changed=_at_least_0("changed", self.changed, seconds_of),
        )


Wanted = Annotated[SitesWanted, Depends()]


@router.get("")
async def list_sites(page: Shown, asked: Wanted, cursor: LongCursor = None) -> Response:
    """Sites that fit every filter."""
    order = SiteOrder.of(asked.sort) if asked.sort else None
    listed = await page.ports.store.sites.listed(asked.filter(), order, _ROWS, cursor, count=asked.narrowed)
    filters = asdict(asked)
    here = f"/sites{query(**filters)}"
    return page.show(
        "sites.html",
        now=page.now,
        rows=await site_rows(page, listed.items),
        total=await number_of_sites(page.ports),
        count=None if listed.count is None else _counted(listed.count, exact=listed.count_is_exact),
        filters=filters,
        narrowed=asked.narrowed,
        states=_STATES,
        sorts=_SORTS,
        rates=_RATES,
        spans=_SPANS,
        here=here,
        last_job=await page.ports.store.jobs.last_undoable(page.now),
        done=JOB_DONE,
        newer=_at(here, listed.previous_cursor),
        older=_at(here, listed.next_cursor),
    )


@dataclass(frozen=True, slots=True)
class SiteRow:
    """A site as the list shows it."""

    site: SiteSchema
    standing: StandingShown
    strip: str
    """The path of its changes of the last day."""
    found: int
    """How many they are."""
    changes: str
    """How often it changes."""
    value: str
    """What its first value says; empty: it has none."""


async def site_rows(page: Page, sites: Sequence[Site]) -> list[SiteRow]:
    """Returns the rows of sites, in their order."""
    ports, now, ids = page.ports, page.now, [site.id for site in sites]
    times = await ports.store.changes.times(ids, now - _STRIP_SECONDS)
    selecting = [site.id for site in sites if site.spec.selections]
    states = await ports.store.history.selection_states_of(selecting) if selecting else {}
    rows = []
    for site, standing in await standings(ports, sites, now):
        readings = [reading for state in states.get(site.id, ()) for reading in state.readings.values() if reading.text]
        moments = times.get(site.id, [])
        value = " ".join(filter(None, (readings[0].currency, readings[0].text))) if readings else ""
        strip = mini_strip(moments, now, _STRIP_SECONDS)
        rows.append(SiteRow(site, standing, strip, len(moments), rate_in_words(site), value))
    return rows


def _at(here: str, cursor: str | None) -> str | None:
    return f"{here}&{urlencode({'cursor': cursor})}" if cursor else None


def _counted(count: int, *, exact: bool) -> str:
    return n_("{count} page", "{count} pages", count) if exact else _("more than {count:,} pages", count=count)


def _at_least_0(name: str, text: str, read: Callable[[str, str], float]) -> float | None:
    value = read(name, text) if text else None
    if value is not None and not 0 <= value < math.inf:
        raise InvalidValueError(name, _("0 or more"), text)
    return value


@router.get("/add")
async def show_add(page: Shown, url: Shared = "", title: Shared = "", text: Shared = "") -> Response:
    """Where an address is looked at and added; a bookmark and the sharing of phones fill it in, and fetch nothing."""
    shared = url or next((word for word in text.split() if word.startswith(("http://", "https://"))), "")
    place = orjson.dumps(f"{page.request.base_url}sites/add?url=").decode()
    current = "encodeURIComponent(location.href)+'&title='+encodeURIComponent(document.title)"
    bookmark = f"javascript:location.href={place}+{current}"
    return page.show("add.html", seen=None, url=shared, title=title, tags="", bookmark=bookmark)


@router.post("")
async def add_site(page: Shown, form: Posted, caller: Caller) -> Response:
    """Adds one site, and goes to it; with the button "look" says what the address is, and adds nothing."""
    spec = NewSite.model_validate(_new_site(form)).spec()
    if not form.has("look"):
        added = await page.ports.control.sites.add_one(spec)
        return page.go(f"/sites/{added.id}")
    take_look(page, caller, "url")
    whole = spec.selections or check_selections({"default": {}})
    seen = await page.ports.control.preview.of_url(structs.replace(spec, selections=whole))
    assert seen.recognised is not None
    price = {"kind": "price", "from": dict(seen.recognised.price_from), "which": "first"}
    return page.show(
        "add.html",
        url=spec.sent_url,
        title=spec.title or seen.recognised.title,
        tags=form.text("tags"),
        seen=seen.recognised,
        answered=seen.status,
        secret=bool(spec.access),
        browser=bool(spec.render),
        kinds=KINDS,
        price=orjson.dumps(price).decode() if seen.recognised.price else "",
    )


def _new_site(form: PostedForm) -> dict[str, Any]:
    """Returns the site that the form describes, as REST takes one. Raises `InvalidValueError`."""
    new: dict[str, Any] = {"url": form.text("url"), "title": form.text("title"), "tags": form.tags("tags")}
    if form.whole("username") or form.whole("password"):
        new["credentials"] = {"username": form.whole("username"), "password": form.whole("password")}
    if form.text("cookie"):
        new["headers"] = {"Cookie": form.text("cookie").removeprefix("Cookie:").strip()}
    if form.has("browser"):
        new["render"] = "browser"
    if form.text("counts") == "price":
        try:
            price = orjson.loads(form.text("price"))
        except orjson.JSONDecodeError as error:
            raise InvalidValueError("price", f"JSON ({error})", form.text("price")[:100]) from error
        moved = [{"value": "price", "changed_by": {"percent": sign}} for sign in (_LEAST_MOVE, -_LEAST_MOVE)]
        new["selections"] = {"default": {"values": {"price": price}, "conditions": {"any": moved}}}
    return new


@router.post("/bulk")
async def change_many(page: Shown, form: Posted, caller: Caller) -> Response:
    """Does one thing to the selected sites, or to all that match: as a job, which can be undone."""
    change: dict[str, Any] = {"action": form.text("action"), "value": _value(form)}
    if form.has("all"):
        sites_wanted = SitesWanted(**{field.name: form.text(f"of_{field.name}") for field in fields(SitesWanted)})
        spec = BulkChange.model_validate(change | {"filter": {}}).spec()
        spec = replace(spec, filter=sites_wanted.filter())
    else:
        ids = form.numbers("id")
        if not ids:
            raise refusal("id", _("select at least one site"))
        spec = BulkChange.model_validate(change | {"ids": ids}).spec()
    job = await page.ports.control.jobs.start(spec, by=caller)
    return page.go(f"/jobs/{job.id}{query(back=within(form.text('back'), '/sites'))}")


def _value(form: PostedForm) -> dict[str, Any]:
    """Returns what the action needs."""
    action = form.text("action")
    if action in (JobAction.TAG, JobAction.UNTAG):
        return {"tag": form.text("tag")}
    if action == JobAction.WEIGHT:
        return {"weight": form.optional_number("weight")}
    if action == JobAction.LIMITS:
        return {"min_interval": form.optional_duration("min_interval")}
    return {}


ROUTERS = (router,)
