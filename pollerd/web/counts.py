"""What counts on the page of a site: the form, and what it would have done."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import unquote

import orjson
from fastapi import Query, Response

from pollerd.api.http import Caller, SiteId, Words
from pollerd.api.inputs import check_selections
from pollerd.api.sites import SitePatch, shown_site, site_changes
from pollerd.daemon.control.preview import KeptPage
from pollerd.detection.edits import unmatched
from pollerd.detection.selection.picker import Offer
from pollerd.detection.selection.preview import SelectionTrial
from pollerd.errors import InvalidValueError, NotFoundError, refusal
from pollerd.model import DEFAULT_SELECTION, Media, Outcome, Site
from pollerd.texts import N_, _
from pollerd.web import counts_form
from pollerd.web.counts_form import (
    ROWS_MAX,
    ConditionRow,
    CountsForm,
    PartRow,
    ValueRow,
    check_rows,
    form_of,
    ignoring_line,
    in_words,
    settings_of_form,
    take_offer,
)
from pollerd.web.http import Posted, PostedForm
from pollerd.web.page import Page, Shown, page_router, take_look

router = page_router(prefix="/sites")
SelectionName = Annotated[Words, Query(max_length=64)]


@router.get("/{site_id:id}/counts")
async def show_counts(page: Shown, site_id: SiteId, selection: SelectionName = DEFAULT_SELECTION) -> Response:
    """The form of one selection, as it is stored."""
    site = await page.ports.store.sites.get(site_id)
    return await _shown(page, site, form_of(site.spec.selections, selection))


@router.post("/{site_id:id}/counts")
async def change_counts(page: Shown, site_id: SiteId, form: Posted, caller: Caller) -> Response:
    """Saves what counts, or undoes that; other buttons show what it would keep, read the page, or add a row."""
    site = await page.ports.store.sites.get(site_id)
    if form.has("undo"):
        return await _undone(page, site, form)
    counts = counts_of(form, site)
    if form.has("kind"):
        counts = form_of(site.spec.selections, counts.selection)
        # quoted, so that no character of a watched page turns the page around that shows it
        ignoring_line(counts, unquote(form.text("before")), unquote(form.text("after")))
    if form.has("take"):
        take_offer(counts, form.text("take"))
    if form.has("add") or form.has("from"):
        return await _shown(page, site, counts, first=max(form.numbers("from"), default=0))
    if form.has("at.x"):
        line = _line_at(page.ports.control.preview.pages_of(site), form)
        if line is None:
            counts.errors.append(_("Nothing can be picked there. Click on a text of the picture."))
            return await _shown(page, site, counts)
        return await _offered(page, site, counts, line)
    if form.has("pick"):
        return await _offered(page, site, counts, max(form.numbers("pick"), default=0))
    reading = None
    if form.has("read") or (
        (form.has("preview") or form.has("kind")) and not page.ports.control.preview.pages_of(site)
    ):
        take_look(page, caller, "read")
        reading = await page.ports.control.preview.read_site(site_id)
    selections = _checked(counts, form, site)
    if selections is None or any(map(form.has, ("preview", "read", "take", "kind"))):
        return await _shown(page, site, counts, selections=selections, reading=reading)
    await _save(page, site_id, selections)
    return page.go(f"/sites/{site_id}#counts")


async def _save(page: Page, site_id: int, selections: str) -> None:
    """Saves what counts, and keeps what counted before, for undoing."""
    patch = SitePatch.model_validate({"selections": orjson.loads(selections) if selections else None})
    async with page.ports.turn:
        before = (await page.ports.store.sites.get(site_id)).spec.selections
        site = await page.ports.control.sites.update(site_id, lambda current: site_changes(current.spec, patch))
        if site.spec.selections != before:
            await page.ports.store.sites.keep_edit(site_id, before, site.spec.selections, page.now)


async def _undone(page: Page, site: Site, form: PostedForm) -> Response:
    """Saves what counted before the last edit; this can be undone, too."""
    edit = await page.ports.store.sites.last_edit(site.id, site.spec.selections, page.now)
    if edit is None or edit.id not in form.numbers("id"):
        counts = form_of(site.spec.selections)
        counts.errors.append(_("This was undone already, what counts was edited since, or more than a day has passed."))
        return await _shown(page, site, counts)
    await _save(page, site.id, edit.document["before"])
    return page.go(f"/sites/{site.id}#counts")


async def _shown(
    page: Page,
    site: Site,
    counts: CountsForm,
    *,
    selections: str | None = None,
    reading: Outcome | None = None,
    first: int = 0,
    offers: Sequence[Offer] = (),
) -> Response:
    """Returns the form; selections: what it says, to be tried; None: it is not tried. first: line of the page."""
    pages, trial = page.ports.control.preview.pages_of(site), None
    if selections is not None and pages:
        try:
            trial = await page.ports.control.preview.try_selection(
                site, selections or check_selections({DEFAULT_SELECTION: {}}), counts.selection
            )
        except InvalidValueError as error:
            counts.errors.append(in_words(error))
    status = 200 if counts.is_right else 422
    return page.show(
        "counts.html",
        status=status,
        site=await shown_site(page.ports, site),
        counts=counts,
        edit=await page.ports.store.sites.last_edit(site.id, site.spec.selections, page.now),
        tests=counts_form,
        trial=trial,
        verdicts=_in_numbers(trial),
        reading=reading,
        read_at=pages[-1].read_at if pages else None,
        lines=_drawn(pages[-1], first, trial) if pages else None,
        selectors=pages[-1].selectors if pages else (),
        offers=[_in_words(offer) for offer in offers],
    )


async def _offered(page: Page, site: Site, counts: CountsForm, line: int) -> Response:
    """Returns what a click on a line can mean."""
    if not page.ports.control.preview.pages_of(site):
        raise refusal("pick", _("the page is no longer kept: read it again"))
    offers = await page.ports.control.preview.offers(site, line)
    return await _shown(page, site, counts, first=line - line % LINES_SHOWN, offers=offers)


def _line_at(pages: Sequence[KeptPage], form: PostedForm) -> int | None:
    """Returns the line whose element is the smallest where the picture was clicked; None: there is none."""
    across, down = (max(form.numbers(f"at.{axis}"), default=-1) for axis in "xy")
    there = [
        (width * height, n)
        for n, line in enumerate(pages[-1].lines if pages else ())
        if line.box is not None
        for left, top, width, height in (line.box,)
        if left <= across < left + width and top <= down < top + height
    ]
    return min(there)[1] if there else None


@router.get("/{site_id:id}/counts/picture")
async def show_picture(page: Shown, site_id: SiteId) -> Response:
    """The picture of the page that was read last for the form; 404: none is kept."""
    site = await page.ports.store.sites.get(site_id)
    pages = page.ports.control.preview.pages_of(site)
    if not pages or pages[-1].picture is None:
        raise NotFoundError(N_("picture of site"), site_id)
    return Response(pages[-1].picture, media_type="image/png", headers={"Cache-Control": "no-store"})


LINES_SHOWN = 500
"""Lines of the page that are shown at a time."""


def _drawn(page: KeptPage, first: int, trial: SelectionTrial | None) -> dict[str, Any]:
    """Returns the lines of the page to be shown, each with its number and whether it is kept; of JSON all are."""
    lines, is_text = page.lines, page.media is not Media.JSON
    shown, texts = lines[first : first + LINES_SHOWN], [line.text for line in lines]
    left_out = set(unmatched(texts, trial.preview.kept.split("\n"))) if trial is not None and is_text else set[int]()
    return {
        "lines": [(first + n, line, first + n not in left_out) for n, line in enumerate(shown)],
        "are_of_text": is_text,
        "picture": None if page.picture is None else _size_of(page.picture),
        "boxes": [(line.box, n not in left_out) for n, line in enumerate(lines) if line.box is not None],
        "first": first,
        "all": len(lines),
        "next": first + LINES_SHOWN if first + LINES_SHOWN < len(lines) else None,
    }


def _size_of(picture: bytes) -> tuple[int, int]:
    """Returns width and height of a PNG, pixels: they stand in its first chunk."""
    return int.from_bytes(picture[16:20], "big"), int.from_bytes(picture[20:24], "big")


_WHAT = {"part": N_("this part"), "around": N_("what it belongs to"), "value": N_("the value in it")}


def _in_words(offer: Offer) -> dict[str, Any]:
    """Returns an offer with what its buttons send."""
    what = _("all {count} like it", count=offer.count) if offer.what == "all" else _WHAT[offer.what]
    value = f"value {offer.kind} {offer.attribute or '-'} {offer.selectors[0]}" if offer.kind else ""
    return {"what": what, "offer": offer, "value": value}


def _in_numbers(trial: SelectionTrial | None) -> dict[str, Any] | None:
    """Returns how many earlier changes would have been sent, and of how many that is known; None: none is stored."""
    if trial is None or not trial.verdicts:
        return None
    known = [verdict for verdict in trial.verdicts if verdict.sent is not None]
    return {
        "all": len(trial.verdicts),
        "known": len(known),
        "sent": sum(bool(verdict.sent) for verdict in known),
    }


def counts_of(form: PostedForm, site: Site) -> CountsForm:
    """Returns what the form says, with empty rows left out; what has no field is from the settings of the site."""
    counts = form_of(site.spec.selections, form.text("selection") or DEFAULT_SELECTION)
    counts.json = form.text("json").replace("\r", "")
    counts.keep, counts.ignore = _parts(form, "keep"), _parts(form, "ignore")
    counts.optional = form.has("optional")
    counts.values = [row for row in _rows(form, ValueRow, "value") if row.name or row.source]
    counts.conditions = [row for row in _conditions(form) if not row.is_empty]
    counts.least_chars, counts.least_percent = form.text("least_chars"), form.text("least_percent")
    for count in (len(counts.keep), len(counts.ignore), len(counts.values), len(counts.conditions)):
        if count > ROWS_MAX:
            raise refusal("counts", _("a form has at most {rows_max} rows of a kind", rows_max=ROWS_MAX))
    return counts


def _parts(form: PostedForm, name: str) -> list[PartRow]:
    pairs = zip(form.texts(name), form.texts(f"{name}_how"), strict=False)
    return [PartRow(text.strip(), how) for text, how in pairs if text.strip()]


_VALUE_COLUMNS = ("name", "kind", "source", "attribute", "which", "currency", "was")


def _rows(form: PostedForm, kind: type[ValueRow], prefix: str) -> list[ValueRow]:
    columns = [[text.strip() for text in form.texts(f"{prefix}_{column}")] for column in _VALUE_COLUMNS]
    return [kind(*row) for row in zip(*columns, strict=False)]


def _conditions(form: PostedForm) -> list[ConditionRow]:
    columns = [form.texts(f"if_{name}") for name in ("of", "test", "argument", "not", "since", "case", "join")]
    return [
        ConditionRow(
            of,
            test,
            argument.strip(),
            negated == "not",
            since == "alert",
            case == "case",
            "or" if join == "or" else "and",
        )
        for of, test, argument, negated, since, case, join in itertools.zip_longest(*columns, fillvalue="")
    ]


def _checked(counts: CountsForm, form: PostedForm, site: Site) -> str | None:
    """Returns the selections that the form says, checked; None: rows have errors. JSON counts if only it was edited."""
    stored = site.spec.selections
    if form.has("json") and counts.json != form_of(stored, counts.selection).json:
        return _from_json(counts, stored)
    check_rows(counts)
    if not counts.is_right:
        return None
    try:
        return check_selections(settings_of_form(counts, stored))
    except InvalidValueError as error:
        counts.errors.append(in_words(error))
        return None


def _from_json(counts: CountsForm, stored: str) -> str | None:
    try:
        selections = check_selections(orjson.loads(counts.json) if counts.json else None)
    except orjson.JSONDecodeError as error:
        counts.errors.append(_("This is not JSON: {error}.", error=error))
        return None
    except InvalidValueError as error:
        counts.errors.append(f"{error.text}.")
        return None
    if settings_of_form(counts, stored) != (orjson.loads(stored) if stored else {}):
        counts.errors.append(_("Both the fields and the JSON were edited. Change one of them back."))
        return None
    return selections


ROUTERS = (router,)
