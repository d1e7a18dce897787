"""Routes by which readers of mails leave a rule. At the root, without token: each link is signed."""

from __future__ import annotations

from html import escape
from typing import Annotated

from fastapi import APIRouter, Path, Response

from pollerd.api.http import MAX_ID, Daemon, operation_id
from pollerd.texts import _, current

router = APIRouter(prefix="/unsubscribe", tags=["notifications"], generate_unique_id_function=operation_id)
RuleId = Annotated[int, Path(ge=1, le=MAX_ID, description="the rule's id")]
ChannelId = Annotated[int, Path(ge=1, le=MAX_ID, description="the channel's id")]
Token = Annotated[str, Path(min_length=10, max_length=500, pattern="^[A-Za-z0-9_-]+$", description="of the link")]
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'"
_PAGE = """<!DOCTYPE html><html lang="{language}"><head><meta charset="utf-8"><title>pollerd</title>
<meta name="viewport" content="width=device-width"></head>
<body style="font-family: sans-serif; margin: 3em auto; max-width: 30em"><h1>{title}</h1>{body}</body></html>"""
_FORM = '<p>{text}</p><form method="post"><button>{button}</button></form>'
_PATH = "/{channel_id:id}/{rule_id:id}/{token}"


@router.get(_PATH, response_class=Response, summary="Ask whether to stop")
async def ask_to_unsubscribe(daemon: Daemon, channel_id: ChannelId, rule_id: RuleId, token: Token) -> Response:
    """A page with a button; asking changes nothing, since programs follow links, too."""
    await daemon.control.notifications.check_unsubscribing(channel_id, rule_id, token)
    return _page(
        _("Stop these messages?"),
        _FORM.format(text=escape(_("This rule will send no more messages to this address.")), button=escape(_("Stop"))),
    )


@router.post(_PATH, response_class=Response, summary="Stop a rule's messages to a channel")
async def unsubscribe(daemon: Daemon, channel_id: ChannelId, rule_id: RuleId, token: Token) -> Response:
    """The rule no longer sends to this channel; a rule without another channel is muted. RFC 8058."""
    async with daemon.turn:
        await daemon.control.notifications.unsubscribe(channel_id, rule_id, token)
    said = _("This rule sends no more messages to this address.")
    return _page(_("Done"), f"<p>{escape(said)}</p>")


def _page(title: str, body: str) -> Response:
    language = current().code.replace("_", "-")
    shown = _PAGE.format(language=language, title=escape(title), body=body)
    return Response(shown, media_type="text/html", headers={"Content-Security-Policy": _POLICY})


ROUTERS = (router,)
