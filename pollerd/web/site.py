"""One site: why it is polled as it is, its history, its versions, its values, its settings."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any

import orjson
from fastapi import Query, Response

from pollerd.api.common import shown_values
from pollerd.api.http import ApiPorts, Caller, Cursor, SiteId
from pollerd.api.inputs import check_selections, shown_setting
from pollerd.api.reads import reads_in_words
from pollerd.api.selections import SelectionStatus
from pollerd.api.signals import site_signals
from pollerd.api.sites import (
    SitePatch,
    SiteSchema,
    current_site,
    redirect_proposal,
    shown_site,
    site_changes,
)
from pollerd.daemon.views import ExplanationView
from pollerd.errors import InvalidValueError
from pollerd.inheritance import inherit
from pollerd.model import JobAction
from pollerd.quantities import duration
from pollerd.site_settings import SITE_SETTINGS, Kind, Setting, SiteSpec
from pollerd.storage.changes import ChangeFilter
from pollerd.storage.jobs import JobSpec
from pollerd.urls import normalise_url
from pollerd.web import counts_form
from pollerd.web.counts_form import form_of
from pollerd.web.explanation import POLLS_TO_KNOW, half_life_in_words, words
from pollerd.web.http import Posted, PostedForm, tags_in_one_field
from pollerd.web.page import Page, Shown, drawing, page_router
from pollerd.web.plots import PageBelief, Strip, belief_plot, poll_strip

router = page_router(prefix="/sites")
_DAY = 86_400.0
_SPANS = (1, 7, 30, 90)
_USUAL_SPAN = 30
_VERSIONS = 20
_POLLS = 50
Days = Annotated[int | None, Query(ge=1, le=366)]


@router.get("/{site_id:id}")
async def show_site(page: Shown, site_id: SiteId, days: Days = None) -> Response:
    """All of one site."""
    ports, now = page.ports, page.now
    site = await ports.store.sites.get(site_id)
    if days is None:  # all that there is, so far
        days = next((span for span in _SPANS[:2] if now - site.created_at < span * _DAY), _USUAL_SPAN)
    shown = await current_site(ports, site)
    explained = await ports.control.sites.explain(site_id)
    changes = await ports.store.changes.page(ChangeFilter(site_id=site_id), _VERSIONS)
    states = await ports.store.history.selection_states(site_id)
    signals = await site_signals(ports, site_id)
    known = await ports.store.reads.of_site(site_id)
    since = max(now - days * _DAY, site.created_at)
    strip = await _strip(ports, site_id, since, now, explained.next_expected_poll_at)
    return page.show(
        "site.html",
        site=shown,
        explained=explained,
        facts=shown_values(explained),
        said=words(explained, shown, now, sites=ports.control.health.status().sites),
        strip=None if strip is None else {"svg": drawing(strip.svg), "rows": strip.rows},
        days=days,
        spans=_SPANS,
        belief=_belief(explained, shown),
        signals=signals,
        reads=reads_in_words(known) if known else None,
        half_life=half_life_in_words(explained),
        changes=changes.items,
        more_changes=changes.next_cursor is not None,
        selections=[SelectionStatus.of(state) for state in states],
        counts=form_of(site.spec.selections),
        tests=counts_form,
        fields=form_fields(SITE_SETTINGS, site.spec, inherit(site.spec, ports.control.tags.all())),
    )


async def _strip(ports: ApiPorts, site_id: int, since: float, now: float, expected: float | None) -> Strip | None:
    """Returns the polls since then, epoch s, over at least a minute; None: there are none."""
    columns = await ports.store.history.strip(site_id, since)
    if not len(columns.at):
        return None
    return await asyncio.to_thread(poll_strip, columns, min(since, now - 60.0), now, expected)


def _belief(explained: ExplanationView, site: SiteSchema) -> Any:
    if explained.rate_per_day is None:
        return None
    polled = None if explained.expected_interval is None else _DAY / explained.expected_interval
    low, high = explained.rate_low_per_day, explained.rate_high_per_day
    known = site.polls >= POLLS_TO_KNOW
    return drawing(belief_plot(PageBelief(explained.rate_per_day, low, high, polled, known)))


def form_fields(settings: Mapping[str, Setting], own: SiteSpec, effective: SiteSpec) -> list[dict[str, Any]]:
    """Returns the fields of the form: first those that make a site one, then those that tags can have, too.

    own: what the site itself says; effective: with what it inherits.
    """
    offered = sorted(
        (setting for setting in settings.values() if setting.form and setting.name not in _ELSEWHERE),
        key=lambda setting: setting.inherits,
    )
    return [
        {
            "name": one.name,
            "label": one.form,
            "kind": one.kind,
            "value": text_of(one, getattr(own, one.name)),
            "inherited": (text_of(one, getattr(effective, one.name)) or "as all") if one.inherits else "",
            "choices": _CHOICES.get(one.kind, ()),
        }
        for one in offered
    ]


_ELSEWHERE = frozenset({"selections"})
"""Settings that have a form of their own."""
_CHOICES = {
    Kind.TRUST: (("hint", "as a hint, up to an hour"), ("strict", "strictly, up to a day"), ("off", "no")),
    Kind.SWITCH: (("true", "yes"), ("false", "no")),
}


def text_of(setting: Setting, value: Any) -> str:
    """Returns a setting as its field of the form has it; empty: the site says none."""
    if value is None or value == "":
        return ""
    match setting.kind:
        case Kind.TAGS:
            return tags_in_one_field(value)
        case Kind.NUMBER | Kind.SHARE:
            return f"{value:g}"
        case Kind.SECONDS:
            return duration(value)
        case Kind.TRUST:
            return str(value.name).lower()
        case Kind.SWITCH:
            return "true" if value else "false"
        case Kind.WINDOWS | Kind.SELECTIONS | Kind.RENDER:
            shown = shown_setting(setting, value)
            return shown if isinstance(shown, str) else orjson.dumps(shown, option=orjson.OPT_INDENT_2).decode()
    return str(value)


@router.get("/{site_id:id}/polls")
async def list_polls(page: Shown, site_id: SiteId, cursor: Cursor = None) -> Response:
    """The polls of a site, each."""
    site = await page.ports.store.sites.get(site_id)
    found = await page.ports.store.history.list_polls(site_id, _POLLS, cursor)
    return page.show(
        "polls.html",
        site=await shown_site(page.ports, site),
        polls=found.items,
        cursor=cursor,
        next_cursor=found.next_cursor,
    )


@router.post("/{site_id:id}/poll")
async def poll_now(page: Shown, site_id: SiteId) -> Response:
    """Polls it as soon as politeness allows."""
    await page.ports.control.sites.poll_now(site_id)
    return page.go(f"/sites/{site_id}")


@router.post("/{site_id:id}/pause")
async def pause(page: Shown, site_id: SiteId) -> Response:
    """Pauses it."""
    await page.ports.control.sites.pause(site_id, True)
    return page.go(f"/sites/{site_id}")


@router.post("/{site_id:id}/resume")
async def resume(page: Shown, site_id: SiteId) -> Response:
    """Resumes it."""
    await page.ports.control.sites.pause(site_id, False)
    return page.go(f"/sites/{site_id}")


@router.post("/{site_id:id}/accept-redirect")
async def accept_redirect(page: Shown, site_id: SiteId) -> Response:
    """Takes the address that it redirects to."""
    async with page.ports.turn:
        url = redirect_proposal(await page.ports.store.sites.get(site_id))
        if url is not None:
            await page.ports.control.sites.update(site_id, {"url": normalise_url(url)})
    return page.go(f"/sites/{site_id}")


@router.post("/{site_id:id}/noise")
async def change_noise(page: Shown, site_id: SiteId, form: Posted) -> Response:
    """Shows a masked part again, or hides it."""
    rule, hidden = form.text("rule"), form.text("hidden") == "true"
    await page.ports.control.sites.hide_noise(site_id, rule, hidden=hidden)
    return page.go(f"/sites/{site_id}")


@router.post("/{site_id:id}/delete")
async def delete(page: Shown, site_id: SiteId, caller: Caller) -> Response:
    """Deletes it, as a job that can be undone."""
    await page.ports.store.sites.get(site_id)
    job = await page.ports.control.jobs.start(JobSpec(JobAction.DELETE, {}, ids=(site_id,)), by=caller)
    return page.go(f"/jobs/{job.id}")


@router.post("/{site_id:id}")
async def change_site(page: Shown, site_id: SiteId, form: Posted) -> Response:
    """Takes its settings from the form; with the button "preview" shows what the selections would keep instead."""
    if form.has("preview"):
        return await _preview(page, site_id, form)
    async with page.ports.turn:
        await page.ports.control.sites.update(
            site_id, lambda site: site_changes(site.spec, SitePatch.model_validate(_patch(form, site.spec)))
        )
    return page.go(f"/sites/{site_id}")


def _patch(form: PostedForm, own: SiteSpec) -> dict[str, Any]:
    """Returns the fields of a form that differ from the site's own as `PATCH /sites/{id}` takes them, and no others.

    The form rounds numbers, so that sending back those that nobody edited would change them. Raises
    `InvalidValueError`.
    """
    sent = [
        site_setting for site_setting in SITE_SETTINGS.values() if site_setting.form and form.has(site_setting.name)
    ]
    edited = (
        one for one in sent if form.text(one.name).replace("\r", "") != text_of(one, getattr(own, one.name)).strip()
    )
    return {one.name: value_in(form, one) for one in edited}


def value_in(form: PostedForm, setting: Setting) -> Any:
    """Returns what the form says of a setting, as REST takes it. Raises `InvalidValueError`."""
    name, text = setting.name, form.text(setting.name)
    match setting.kind:
        case Kind.TEXT:
            return text
        case Kind.TAGS:
            return form.tags(name)
        case Kind.NUMBER:
            return form.optional_number(name)
        case Kind.SECONDS:
            return form.optional_duration(name)
        case Kind.SWITCH:
            return text == "true" if text else None
        case Kind.WINDOWS | Kind.SELECTIONS:
            return _json(name, text)
        case Kind.RENDER:
            return text if text == "browser" else _json(name, text)
    return text or None  # shares and words are read by REST


def _json(name: str, text: str) -> Any:
    if not text:
        return None
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidValueError(name, f"JSON ({error})", text[:100]) from error


async def _preview(page: Page, site_id: int, form: PostedForm) -> Response:
    wanted = check_selections(_json("selections", form.text("selections")) or {"default": {}})
    found = await page.ports.control.preview.of_stored(site_id, wanted)
    site = await shown_site(page.ports, await page.ports.store.sites.get(site_id))
    return page.show("preview.html", site=site, preview=found, selections_text=form.text("selections"))


ROUTERS = (router,)
