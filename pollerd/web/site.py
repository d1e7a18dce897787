"""One site: why it is polled as it is, its history, its versions, its values, its settings."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import Query, Response

from pollerd.api.common import shown_values
from pollerd.api.http import ApiPorts, Caller, Cursor, SiteId
from pollerd.api.reads import reads_in_words
from pollerd.api.selections import SelectionStatus
from pollerd.api.signals import site_signals
from pollerd.api.sites import (
    SitePatch,
    SiteSchema,
    redirect_proposal,
    shown_site,
    site_changes,
)
from pollerd.daemon.views import ExplanationView
from pollerd.inheritance import inherit
from pollerd.model import JobAction, Site
from pollerd.site_settings import SITE_SETTINGS, SiteSpec
from pollerd.storage.changes import ChangeFilter
from pollerd.storage.jobs import JobSpec
from pollerd.urls import normalise_url
from pollerd.web import counts_form, fetch_form
from pollerd.web.counts_form import form_of
from pollerd.web.counts_words import selections_in_words
from pollerd.web.explanation import changing, half_life_in_words, words
from pollerd.web.fetch_form import form_fields, text_of, value_in, when_values
from pollerd.web.http import Posted, PostedForm
from pollerd.web.page import Shown, for_both, page_router
from pollerd.web.plots import NARROW, WIDTH, PageBelief, belief_plot, poll_strip
from pollerd.web.standing import POLLS_TO_LEARN, site_standing

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
    live = await ports.control.sites.current(site_id)
    shown = SiteSchema.of(site, live, ports.store.sites.tags.in_force)
    explained = await ports.control.sites.explain(site_id)
    changes = await ports.store.changes.page(ChangeFilter(site_id=site_id), _VERSIONS)
    states = await ports.store.history.selection_states(site_id)
    signals = await site_signals(ports, site_id)
    known = await ports.store.reads.of_site(site_id)
    since = now - days * _DAY
    strip = await _strip(ports, site, since, now, explained.next_expected_poll_at)
    effective = inherit(site.spec, ports.control.tags.all())
    return page.show(
        "site.html",
        site=shown,
        standing=site_standing(
            shown,
            now,
            offline=ports.control.health.offline,
            asked=live is not None and live.asked,
        ),
        now=now,
        learned=shown.polls >= POLLS_TO_LEARN,
        explained=explained,
        facts=shown_values(explained),
        changing=changing(explained, shown),
        said=words(explained, shown, now, sites=ports.control.health.sites),
        strip=strip,
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
        counts_in_words=selections_in_words(effective.selections) if not page.may_write else (),
        edit=await ports.store.sites.last_edit(site_id, site.spec.selections, now),
        tests=counts_form,
        fields=form_fields(fetch_form.OF_SITE, site.spec, effective),
        **when_values(site.spec, effective, explained),
    )


async def _strip(
    ports: ApiPorts, site: Site, since: float, now: float, expected: float | None
) -> dict[str, Any] | None:
    """Returns the checks since then, epoch s, over at least a minute, as plots and rows; None: there are none."""
    columns = await ports.store.history.strip(site.id, since)
    if not len(columns.at):
        return None
    since = max(since, min(site.created_at, float(columns.at.min())))
    times = (min(since, now - 60.0), now, expected)
    wide, narrow = [await asyncio.to_thread(poll_strip, columns, *times, width) for width in (WIDTH, NARROW)]
    return {"svg": for_both(wide.svg, narrow.svg), "rows": wide.rows}


def _belief(explained: ExplanationView, site: SiteSchema) -> Any:
    if explained.rate_per_day is None:
        return None
    polled = None if explained.expected_interval is None else _DAY / explained.expected_interval
    low, high = explained.rate_low_per_day, explained.rate_high_per_day
    belief = PageBelief(explained.rate_per_day, low, high, polled, known=site.polls >= POLLS_TO_LEARN)
    return for_both(belief_plot(belief), belief_plot(belief, NARROW))


@router.get("/{site_id:id}/polls")
async def list_polls(page: Shown, site_id: SiteId, cursor: Cursor = None) -> Response:
    """The polls of a site, each."""
    site = await page.ports.store.sites.get(site_id)
    polls = await page.ports.store.history.list_polls(site_id, _POLLS, cursor)
    return page.show(
        "polls.html",
        site=await shown_site(page.ports, site),
        polls=polls.items,
        cursor=cursor,
        next_cursor=polls.next_cursor,
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


@router.post("/{site_id:id}/use-browser")
async def use_browser(page: Shown, site_id: SiteId) -> Response:
    """Has a browser read it from now on."""
    async with page.ports.turn:
        patch = SitePatch.model_validate({"render": "browser"})
        await page.ports.control.sites.update(site_id, lambda current: site_changes(current.spec, patch))
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
    """Takes its settings from the form."""
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
        setting
        for setting in sent
        if form.text(setting.name).replace("\r", "") != text_of(setting, getattr(own, setting.name)).strip()
    )
    return {setting.name: value_in(form, setting) for setting in edited}


ROUTERS = (router,)
