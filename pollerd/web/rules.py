"""Rules: the form with all their fields, what is filled in already, muting and deleting."""

from __future__ import annotations

from contextlib import suppress
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from pollerd.api.http import MAX_ID, Caller, Words
from pollerd.api.notifications import RuleSchema
from pollerd.errors import DuplicateError, InvalidValueError, NotFoundError
from pollerd.events import EventKind
from pollerd.model import Media, OutcomeKind
from pollerd.texts import N_, _
from pollerd.web.alerts import READY, alerts_page, event_words
from pollerd.web.http import Posted, PostedForm
from pollerd.web.page import Page, Shown, page_router
from pollerd.web.rule_form import document_of_form, field_of, sent_values, values_of
from pollerd.web.words import DAY_WORDS

router = page_router(prefix="/rules")
RuleId = Annotated[int, Path(ge=1, le=MAX_ID)]
_FAILURES = ("site.failing", "site.recovered", "site.gone", "site.no_text", "site.nothing_selected")
_OF_DAEMON = ("daemon.blind", "daemon.over_budget", "channel.down")
_READY: dict[str, dict[str, Any]] = {
    "everything": {"events": ["site.changed", *_FAILURES, "site.moved", *_OF_DAEMON]},
    "digest": {"events": ["site.changed"], "digest": {"every": "day", "at": "08:00"}},
    "failures": {"events": [*_FAILURES, *_OF_DAEMON]},
}
_SECONDS = {"1h": 3_600.0, "8h": 28_800.0, "1d": 86_400.0, "7d": 604_800.0}
_NOTHING_TO_UNDO = N_("This was undone already, or more than a day has passed.")
Short = Annotated[Words, Query(max_length=300)]


class Filled(BaseModel):
    """Fields of a new rule that a link fills in: a ready-made rule, a site, a tag, a host, words of a difference."""

    model_config = ConfigDict(frozen=True)

    ready: Annotated[str, Field(max_length=20)] = ""
    name: Short = ""
    site: int | None = Field(None, ge=1, le=MAX_ID)
    tag: Short = ""
    host: Short = ""
    added: Short = ""
    removed: Short = ""

    def rule(self) -> dict[str, Any]:
        """Returns the rule's document, as far as the link fills it in."""
        scope: dict[str, list[Any]] = {
            "ids": [self.site] if self.site else [],
            "tags": [self.tag],
            "hosts": [self.host],
        }
        words = {"added": [self.added], "removed": [self.removed]}
        return {
            **_READY.get(self.ready, {}),
            "name": self.name or _(dict(READY).get(self.ready, "")),
            "sites": {key: listed for key, listed in scope.items() if any(listed)},
            "words": {key: [{"text": text} for text in listed] for key, listed in words.items() if any(listed)},
        }


@router.get("/new")
async def new_rule(page: Shown, filled: Annotated[Filled, Query()]) -> Response:
    """The form of a new rule."""
    return await _form(page, None, values_of(filled.rule()))


@router.get("/{rule_id:id}")
async def edit_rule(page: Shown, rule_id: RuleId) -> Response:
    """The form of a rule, for those who can change it."""
    if not page.may_write:
        return page.go("/rules")
    rule = RuleSchema.of(await page.ports.store.notifications.rules.get(rule_id))
    return await _form(page, rule_id, values_of(rule.rule | {"name": rule.name, "enabled": rule.enabled}))


async def _form(
    page: Page, rule_id: int | None, values: dict[str, Any], error: tuple[str, str] | None = None
) -> Response:
    """Returns the form; error: the field beside which it stands (empty: above the form), and what it says."""
    channels = [channel.spec.name for channel in await page.ports.store.notifications.channels.all()]
    in_words = event_words()
    kinds = [(kind.value, in_words[kind.value]) for kind in EventKind if kind.value in in_words]
    return page.show(
        "rule.html",
        status=HTTPStatus.UNPROCESSABLE_ENTITY if error else HTTPStatus.OK,
        rule_id=rule_id,
        values=values,
        error=error or ("", ""),
        channels=channels,
        kinds=kinds,
        media=[(media.value, media.in_words) for media in Media],
        failures=[(kind.value, kind.in_words) for kind in OutcomeKind if kind.failed and kind is not OutcomeKind.BODY],
        days=[(day, _(name)) for day, name in DAY_WORDS.items()],
        titles=await _titles(page, values["ids"]),
    )


async def _titles(page: Page, ids: str) -> list[str]:
    """Returns titles or addresses of the sites that the field names."""
    numbers = [int(text) for text in ids.replace(",", " ").split() if text.isdecimal() and len(text) < 19][:20]
    sites = await page.ports.store.sites.get_many(numbers) if numbers else []
    return [site.title or site.spec.url for site in sites]


@router.post("/new")
async def add_rule(page: Shown, form: Posted) -> Response:
    """Adds a rule."""
    return await _taken(page, form, None)


@router.post("/{rule_id:id}")
async def change_rule(page: Shown, rule_id: RuleId, form: Posted) -> Response:
    """Changes a rule; what the form does not have of it stays."""
    return await _taken(page, form, rule_id)


async def _taken(page: Page, form: PostedForm, rule_id: int | None) -> Response:
    """Stores the rule; what cannot be used is said beside its field, and all that was typed stays."""
    control, rules = page.ports.control.notifications, page.ports.store.notifications.rules
    try:
        async with page.ports.turn:
            if rule_id is None:
                await control.add_rule(document_of_form(form, {}))
            else:
                kept = RuleSchema.of(await rules.get(rule_id)).rule
                await control.change_rule(rule_id, document_of_form(form, kept))
    except InvalidValueError as error:
        field = field_of(error.field)
        text = (
            error.text
            if not field
            else error.allowed
            if error.sentence
            else _("must be {allowed}", allowed=error.allowed)
        )
        return await _form(page, rule_id, sent_values(form), (field, text))
    except DuplicateError as error:
        return await _form(page, rule_id, sent_values(form), ("name", f"{error}"))
    return page.go("/rules")


@router.post("/{rule_id:id}/mute")
async def mute_rule(page: Shown, rule_id: RuleId, form: Posted) -> Response:
    """Mutes a rule for a while; without a time it sends again."""
    chosen = form.text("for")
    if chosen and chosen not in _SECONDS:
        raise InvalidValueError("for", _("one of {names}", names=", ".join(_SECONDS)), chosen)
    async with page.ports.turn:
        until = page.now + _SECONDS[chosen] if chosen else None
        await page.ports.control.notifications.mute_rule(rule_id, until)
    return page.go("/rules")


@router.post("/{rule_id:id}/delete")
async def delete_rule(page: Shown, rule_id: RuleId) -> Response:
    """Deletes a rule, which can be undone for a day; one that is deleted already stays so."""
    with suppress(NotFoundError):
        async with page.ports.turn:
            await page.ports.control.notifications.delete_rule(rule_id)
    return page.go("/rules")


@router.post("/public-url")
async def set_public_url(page: Shown, form: Posted, caller: Caller) -> Response:
    """Has messages link to these pages at an address, until a restart."""
    try:
        async with page.ports.turn:
            await page.ports.control.notifications.link_to(form.text("url"), by=caller)
    except InvalidValueError as error:
        failed, status = (
            _("The public address must be {allowed}.", allowed=error.allowed),
            HTTPStatus.UNPROCESSABLE_ENTITY,
        )
        return await alerts_page(page, status=status, failed=failed, browser_address=form.text("url"))
    return page.go("/rules")


@router.post("/undo")
async def undo(page: Shown, form: Posted) -> Response:
    """Brings a deleted rule or channel back."""
    [copy_id] = form.numbers("id")[:1] or [0]
    try:
        async with page.ports.turn:
            await page.ports.control.notifications.undelete(copy_id)
    except NotFoundError:
        return await alerts_page(page, status=HTTPStatus.NOT_FOUND, failed=_(_NOTHING_TO_UNDO))
    except DuplicateError as error:
        return await alerts_page(
            page, status=HTTPStatus.CONFLICT, failed=_("{error}: rename or delete that one first.", error=error)
        )
    except InvalidValueError as error:
        text = _("A channel of this rule is missing ({error}). Undo its deletion first.", error=error.text)
        return await alerts_page(page, status=HTTPStatus.CONFLICT, failed=text)
    return page.go("/rules")


ROUTERS = (router,)
