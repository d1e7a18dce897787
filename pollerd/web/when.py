"""How the page of a site is fetched, and when: the form, and a fetch to try it."""

from __future__ import annotations

from fastapi import Response
from msgspec import structs
from pydantic import ValidationError

from pollerd.api.http import Caller, SiteId
from pollerd.api.sites import SitePatch, shown_site, site_changes
from pollerd.errors import InvalidValueError, allowed_by
from pollerd.inheritance import inherit
from pollerd.lists.recognise import Recognition
from pollerd.model import Outcome, Site
from pollerd.texts import _
from pollerd.web.counts_form import in_words
from pollerd.web.fetch_form import OTHERS, FetchForm, Patch, patch_of, posted_fetch_form, text_of, value_in, when_values
from pollerd.web.http import Posted, PostedForm
from pollerd.web.page import Page, Shown, page_router, take_look

router = page_router(prefix="/sites")


@router.get("/{site_id:id}/when")
async def show_when(page: Shown, site_id: SiteId) -> Response:
    """The form, as it is stored."""
    site = await page.ports.store.sites.get(site_id)
    return await _shown(page, site, None)


@router.post("/{site_id:id}/when")
async def change_when(page: Shown, site_id: SiteId, form: Posted, caller: Caller) -> Response:
    """Saves the form; with the button "try" fetches the page as the form says, and saves nothing."""
    site = await page.ports.store.sites.get(site_id)
    fields = posted_fetch_form(form, site.spec)
    fields.texts = {name: form.text(name) for name in OTHERS}
    if form.has("add"):
        return await _shown(page, site, fields)
    try:
        if form.has("try"):
            changes = site_changes(site.spec, SitePatch.model_validate(_patch(fields, form, site)))
            take_look(page, caller, "try")
            tried = await page.ports.control.preview.fetch_as(site, structs.replace(site.spec, **changes))
            return await _shown(page, site, fields, tried)
        async with page.ports.turn:
            await page.ports.control.sites.update(
                site_id,
                lambda current: site_changes(current.spec, SitePatch.model_validate(_patch(fields, form, current))),
            )
    except InvalidValueError as error:
        fields.errors[_field_of(error.field)] = in_words(error)
    except ValidationError as error:
        for fault in error.errors():
            place = ".".join(map(str, fault["loc"]))
            fields.errors[_field_of(place)] = _("Must be {allowed}.", allowed=allowed_by(fault))
    if fields.errors:
        return await _shown(page, site, fields)
    return page.go(f"/sites/{site_id}#when")


def _patch(fields: FetchForm, form: PostedForm, site: Site) -> Patch:
    """Returns what was edited. Raises `InvalidValueError`."""
    patch = patch_of(fields, form, site.spec)
    for name, setting in OTHERS.items():
        if form.has(name) and form.text(name) != text_of(setting, getattr(site.spec, name)).strip():
            patch[name] = value_in(form, setting)
    return patch


_FIELDS = ("headers", "credentials", "render.steps", "windows", "render", "body", "proxy", "pdf_password")


def _field_of(place: str) -> str:
    """Returns the field of the form next to which an error stands; of a step with its number."""
    if place.startswith("render.steps["):
        return place.partition("]")[0] + "]"
    return next((name for name in _FIELDS if place.startswith(name)), place.partition(".")[0])


async def _shown(
    page: Page, site: Site, fields: FetchForm | None, tried: tuple[Outcome, Recognition] | None = None
) -> Response:
    explained = await page.ports.control.sites.explain(site.id)
    status = 422 if fields is not None and fields.errors else 200
    values = when_values(site.spec, inherit(site.spec, page.ports.control.tags.all()), explained, fields)
    return page.show("when.html", status=status, site=await shown_site(page.ports, site), tried=tried, **values)


ROUTERS = (router,)
