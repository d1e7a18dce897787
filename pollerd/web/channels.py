"""Channels: the forms of each kind, testing, sending again and deleting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Path, Query, Response

from pollerd.api.http import MAX_ID
from pollerd.errors import DuplicateError, InvalidValueError, NotFoundError
from pollerd.storage.notification_values import StoredChannel
from pollerd.texts import N_, _
from pollerd.web.alerts import alerts_page
from pollerd.web.http import Posted, PostedForm
from pollerd.web.page import Page, Shown, page_router

router = page_router(prefix="/rules/channels")
ChannelId = Annotated[int, Path(ge=1, le=MAX_ID)]


@dataclass(frozen=True, slots=True)
class ChannelField:
    """A setting of a channel in its form."""

    name: str
    label: str
    type: str = "text"
    """As of an input; also choice, lines and tick."""
    hint: str = ""
    choices: tuple[str, ...] = ()
    secret: bool = False
    """It is never shown; left empty it stays as it is."""


_USER = (
    ChannelField("username", N_("User name")),
    ChannelField("password", N_("Password"), "password", secret=True),
)
KINDS: Mapping[str, tuple[str, tuple[ChannelField, ...]]] = {
    "email": (
        N_("E-mail"),
        (
            ChannelField("recipients", N_("To"), hint="me@example.org, you@example.org"),
            ChannelField("sender", N_("From"), hint="pollerd@example.org"),
            ChannelField("host", N_("Mail server"), hint="mail.example.org"),
            ChannelField("port", N_("Port"), "number", "587"),
            ChannelField("security", N_("Security"), "choice", choices=("starttls", "tls", "none")),
            *_USER,
        ),
    ),
    "webhook": (
        N_("Webhook"),
        (
            ChannelField("url", N_("Address"), "url", "https://"),
            ChannelField("headers", N_("Headers, one a line"), "lines", "Authorization: Bearer …", secret=True),
            ChannelField("secret", N_("Secret that signs (made, if empty)"), "password", secret=True),
        ),
    ),
    "apprise": (
        N_("Chat or service (Apprise)"),
        (
            ChannelField("url", N_("Apprise address"), hint="ntfy://…", secret=True),
            ChannelField("format", N_("Messages as"), "choice", choices=("text", "markdown", "html")),
        ),
    ),
    "nats": (
        N_("NATS stream"),
        (
            ChannelField("host", N_("Host"), hint="nats.example.org"),
            ChannelField("port", N_("Port"), "number", "4222"),
            ChannelField("tls", N_("the connection must be encrypted"), "tick"),
            ChannelField("subject", N_("Subject"), hint="pollerd.changes"),
            ChannelField("stream", N_("Stream")),
            *_USER,
            ChannelField("token", N_("Token"), "password", secret=True),
            ChannelField("seed", N_("NKey seed"), "password", secret=True),
            ChannelField("credentials", N_("Credentials file"), "lines", secret=True),
        ),
    ),
}
"""Kind -> its name for people, and the fields of its form."""
_DELIVERY = (
    ChannelField("per_minute", N_("Maximum messages per minute"), "number"),
    ChannelField("group_from", N_("Events in a minute from which they are one message"), "number"),
    ChannelField("zone", N_("Times in the zone"), hint="UTC"),
    ChannelField("template", N_("Template of messages (Jinja2; empty: the built-in one)"), "lines"),
)
_USUAL: Mapping[str, Any] = {"per_minute": 30, "group_from": 10, "zone": "", "template": ""}


@router.get("/new")
async def new_channel(page: Shown, kind: Annotated[str, Query(max_length=20)]) -> Response:
    """The form of a new channel."""
    _check_kind(kind)
    return _form(page, kind, None, {**_USUAL, "enabled": True})


@router.get("/{channel_id:id}")
async def edit_channel(page: Shown, channel_id: ChannelId) -> Response:
    """The form of a channel, for those who can change it; secrets are not in it."""
    if not page.may_write:
        return page.go("/rules")
    channel = await page.ports.store.notifications.channels.get(channel_id)
    shown = page.ports.control.notifications.shown(channel)
    values = {**_USUAL, **shown, **shown.get("delivery", {}), "name": channel.spec.name}
    if isinstance(values.get("recipients"), list | tuple):
        values["recipients"] = ", ".join(values["recipients"])
    values["headers"] = "".join(f"{name}:\n" for name in values.get("headers", ()))
    return _form(page, channel.spec.kind, channel, values | {"enabled": channel.spec.enabled})


def _form(
    page: Page,
    kind: str,
    channel: StoredChannel | None,
    values: Mapping[str, Any],
    error: tuple[str, str] = ("", ""),
) -> Response:
    """Returns the form; error: the field beside which it stands (empty: above the form), and what it says."""
    return page.show(
        "channel.html",
        status=HTTPStatus.UNPROCESSABLE_ENTITY if error[1] else HTTPStatus.OK,
        channel_id=channel.id if channel else None,
        kind=kind,
        kind_name=KINDS[kind][0],
        fields=KINDS[kind][1],
        delivery=_DELIVERY,
        values=values,
        secrets=page.ports.control.notifications.shown(channel).get("secrets", []) if channel else [],
        error=error,
    )


@router.post("")
async def add_channel(page: Shown, form: Posted) -> Response:
    """Adds a channel; the secret of a webhook is shown this once."""
    kind = form.text("kind")
    _check_kind(kind)
    control = page.ports.control.notifications
    try:
        async with page.ports.turn:
            added = await control.add_channel(form.text("name"), kind, _settings(form, kind))
    except (InvalidValueError, DuplicateError) as error:
        return _form(page, kind, None, _sent(form, kind), _beside(error, kind))
    secret = control.signing_secret(added) if kind == "webhook" else None
    return await alerts_page(page, secret=(added.spec.name, secret)) if secret else page.go("/rules")


@router.post("/{channel_id:id}")
async def change_channel(page: Shown, channel_id: ChannelId, form: Posted) -> Response:
    """Changes a channel; secrets that are left empty stay, unless its address changes."""
    channel = await page.ports.store.notifications.channels.get(channel_id)
    kind, control = channel.spec.kind, page.ports.control.notifications
    known = control.shown(channel)
    try:
        settings = _settings(form, kind)
        if kind == "webhook" and known.get("previous_until") is not None:
            settings.setdefault("previous_until", known["previous_until"])
        if kind == "apprise" and "url" not in settings and "service" in known:
            settings["service"] = known["service"]
        async with page.ports.turn:
            await control.change_channel(channel_id, settings, name=form.text("name"), enabled=form.has("enabled"))
    except (InvalidValueError, DuplicateError) as error:
        return _form(page, kind, channel, _sent(form, kind), _beside(error, kind))
    return page.go("/rules")


def _check_kind(kind: str) -> None:
    if kind not in KINDS:
        raise InvalidValueError("kind", _("one of {names}", names=", ".join(KINDS)), kind)


def _settings(form: PostedForm, kind: str) -> dict[str, Any]:
    """Returns the settings as REST takes them. Raises `InvalidValueError`."""
    settings: dict[str, Any] = {}
    for field in KINDS[kind][1]:
        text = form.whole(field.name) if field.type == "password" else form.text(field.name)
        if field.type == "tick":
            settings[field.name] = form.has(field.name)
        elif text:
            settings[field.name] = _whole_number(field.name, text) if field.type == "number" else text
    if "headers" in settings:
        settings["headers"] = _headers(settings["headers"])
    if form.has("per_minute"):
        texts = {field.name: form.text(field.name) for field in _DELIVERY if form.text(field.name)}
        numbers = {name: _whole_number(name, texts[name]) for name in ("per_minute", "group_from") if name in texts}
        settings["delivery"] = texts | numbers
    return settings


def _whole_number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise InvalidValueError(name, _("a whole number"), text)
    return int(text)


def _headers(text: str) -> dict[str, str] | list[str]:
    """Returns headers of lines; only names, if no line has a value: then the values stay. Raises InvalidValueError."""
    lines = [line.partition(":") for line in text.splitlines() if line.strip()]
    headers = {name.strip(): value.strip() for name, _colon, value in lines}
    if not any(headers.values()):
        return list(headers)
    if not all(headers.values()):
        allowed = _(
            "lines such as Name: value, each with its value: values that are stored cannot be mixed with new ones"
        )
        raise InvalidValueError("headers", allowed, _("(not shown)"))
    return headers


def _sent(form: PostedForm, kind: str) -> dict[str, Any]:
    """Returns what was typed, to be shown again beside an error; no secrets."""
    fields = (*KINDS[kind][1], *_DELIVERY)
    typed = {field.name: form.text(field.name) for field in fields if not field.secret}
    ticks = {field.name: form.has(field.name) for field in fields if field.type == "tick"}
    return {**_USUAL, **typed, **ticks, "name": form.text("name"), "enabled": form.has("enabled")}


def _beside(error: InvalidValueError | DuplicateError, kind: str) -> tuple[str, str]:
    """Returns the field beside which an error stands, empty for the whole form, and what it says."""
    if isinstance(error, DuplicateError):
        return "name", str(error)
    field = error.field.removeprefix("delivery.")
    known = {"name", *(known.name for known in (*KINDS[kind][1], *_DELIVERY))}
    if field not in known:
        return "", error.text
    return field, error.allowed if error.sentence else _("must be {allowed}", allowed=error.allowed)


@router.post("/{channel_id:id}/test")
async def test_channel(page: Shown, channel_id: ChannelId) -> Response:
    """Sends a test message, and shows the answer."""
    channel = await page.ports.store.notifications.channels.get(channel_id)
    answer = await page.ports.control.notifications.try_channel(channel_id)
    code = "" if answer.status is None else f" {answer.status}"
    text = f"{answer.kind.value}{code}{': ' if answer.detail else ''}{answer.detail}"
    return await alerts_page(page, tested=(channel.spec.name, answer.kind.value == "sent", text))


@router.post("/{channel_id:id}/resend")
async def resend(page: Shown, channel_id: ChannelId) -> Response:
    """Queues failed messages again."""
    await page.ports.control.notifications.resend(channel_id=channel_id)
    return page.go("/rules")


@router.post("/{channel_id:id}/delete")
async def delete_channel(page: Shown, channel_id: ChannelId) -> Response:
    """Deletes a channel, which can be undone for a day; not while rules name it."""
    try:
        async with page.ports.turn:
            await page.ports.control.notifications.delete_channel(channel_id)
    except NotFoundError:
        return page.go("/rules")  # it is deleted already
    except InvalidValueError as error:
        return await alerts_page(
            page, status=HTTPStatus.UNPROCESSABLE_ENTITY, failed=_("Not deleted: {error}.", error=error.text)
        )
    return page.go("/rules")


ROUTERS = (router,)
