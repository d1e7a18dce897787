"""Channels by Apprise: messages are sent from a channel's own fenced process, which stays warm for a minute."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, unquote_plus

import orjson
import structlog
from msgspec import Struct

from pollerd.errors import InvalidValueError, refusal, unknown_name
from pollerd.fetching.guard import (
    DIALLING_FAULTS,
    Address,
    BlockedAddressError,
    Guard,
    allowed_addresses,
    connect,
    why_not_dialled,
)
from pollerd.masking import NOT_SHOWN
from pollerd.model import OutcomeKind
from pollerd.notifications.channels.apprise_fence import missing
from pollerd.notifications.channels.channel import (
    DEADLINE_SECONDS,
    ChannelEnvironment,
    GivenFields,
    detail_of,
    kind_of_answer,
    unanswered,
)
from pollerd.notifications.message import AnswerKind, Message, Receipt
from pollerd.texts import N_, _

# The daemon's side of the process: starts it, looks up names and opens connections for it, and kills it.

_CHILD = Path(__file__).with_name("apprise_child.py")
_ENVIRONMENT = {"NETRC": os.devnull, "HOME": "/nonexistent", "LANG": "C.UTF-8"}
_LINE_BYTES = 64 * 1024


class LostProcessError(Exception):
    """The process ended, could not be fenced, or said what nobody understands."""


class AppriseProcess:
    """One process; it sends one message at a time."""

    def __init__(self, guard: Guard, program: Path = _CHILD) -> None:
        self._guard, self._program = guard, program
        self._process: asyncio.subprocess.Process | None = None
        self.denial = ""
        """Why the guard refused an address of the last message; empty: it refused none."""
        self._socket: socket.socket | None = None
        self._unread = b""
        self._looked_up: dict[str, Address] = {}
        """Addresses that the process may ask to be connected to: those that it looked up for this message."""

    async def send(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Returns what became of a message. Raises `LostProcessError`; after any exception it must be killed."""
        if self._process is None or self._process.returncode is not None:
            await self.kill()
            await self._start()
        self._looked_up.clear()
        self.denial = ""
        await self._say(fields)
        return await self._listen()

    async def kill(self) -> None:
        """Ends the process at once."""
        process, self._process = self._process, None
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _start(self) -> None:
        """Starts the process and waits until it can send. Raises `LostProcessError`."""
        self._unread = b""
        self._socket, other = socket.socketpair()
        self._socket.setblocking(False)
        with other:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-B", str(self._program)),
                stdin=other.fileno(),
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                env=_ENVIRONMENT,
                cwd="/",
            )
        answer = await self._listen()
        if (reason := missing()) is not None:
            structlog.get_logger("pollerd.channels").warning("apprise_not_fenced", reason=reason)
        if "fault" in answer:
            raise LostProcessError(_("the process for Apprise cannot be fenced: {fault}", fault=answer["fault"]))

    async def _listen(self) -> dict[str, Any]:
        """Answers look-ups and opens connections until another line comes, and returns that."""
        while True:
            try:
                answer = orjson.loads(await self._line())
            except (ValueError, OSError) as error:  # too long, no JSON, or the end
                raise LostProcessError(_("the process for Apprise ended")) from error
            if not isinstance(answer, dict):
                raise LostProcessError(_("the process for Apprise sent an unknown answer"))
            if "resolve" in answer:
                await self._say(await self._resolved(str(answer["resolve"]), _port(answer)))
            elif "connect" in answer:
                await self._connect(str(answer["connect"]), _port(answer), answer.get("timeout"))
            else:
                return answer

    async def _line(self) -> bytes:
        """Returns the next line. Raises ValueError for one that is too long, and OSError."""
        assert self._socket is not None
        while b"\n" not in self._unread:
            if len(self._unread) > _LINE_BYTES:
                raise ValueError(_("the line is too long"))
            more = await asyncio.get_running_loop().sock_recv(self._socket, _LINE_BYTES)
            if not more:
                raise ConnectionResetError(errno.ECONNRESET, _("the process ended"))
            self._unread += more
        line, _newline, self._unread = self._unread.partition(b"\n")
        return line

    async def _say(self, line: Mapping[str, Any]) -> None:
        assert self._socket is not None
        try:
            await asyncio.get_running_loop().sock_sendall(self._socket, orjson.dumps(line) + b"\n")
        except OSError as error:
            raise LostProcessError(_("the process for Apprise ended")) from error

    async def _resolved(self, host: str, port: int) -> dict[str, Any]:
        try:
            addresses = await allowed_addresses(self._guard, host, port)
        except BlockedAddressError as error:
            self.denial = str(error)
            return {"refused": self.denial}
        except DIALLING_FAULTS:
            return {"addresses": []}
        self._looked_up.update((str(entry[4][0]), entry) for entry in addresses)
        return {"addresses": [(entry[0], entry[4]) for entry in addresses]}

    async def _connect(self, host: str, port: int, patience: object) -> None:
        """Opens a connection through the guard and passes its descriptor; answers why not, where it cannot.

        patience: the seconds that the process waits, as it says; anything else is no limit of its own.
        """
        entry = self._looked_up.get(host)
        if entry is None:
            await self._say(
                {"refused": _("connection to {host!r}, which was not looked up for this message", host=host)}
            )
            return
        seconds = patience if isinstance(patience, int | float) and patience > 0 else DEADLINE_SECONDS
        target = (*entry[:4], (host, port, *entry[4][2:]))
        try:
            async with asyncio.timeout(min(seconds, DEADLINE_SECONDS)):
                opened = await connect([target], self._guard)
        except DIALLING_FAULTS as error:
            number = getattr(error, "errno", None) or (
                errno.ETIMEDOUT if isinstance(error, TimeoutError) else errno.ECONNREFUSED
            )
            await self._say({"failed": number, "reason": why_not_dialled(error)[1]})
            return
        with opened:
            self._pass(opened)

    def _pass(self, opened: socket.socket) -> None:
        """Passes a descriptor, which needs an empty buffer: the process waits for this one answer."""
        assert self._socket is not None
        try:
            socket.send_fds(self._socket, [b"{}\n"], [opened.fileno()])
        except OSError as error:
            raise LostProcessError(_("the process for Apprise does not read what it asked for")) from error


def _port(answer: Mapping[str, Any]) -> int:
    port = answer.get("port")
    return port if isinstance(port, int) and 0 <= port < 65_536 else 0


# Refused services and options of Apprise: those that break what pollerd promises.

_LOCAL = N_("reaches only this machine, and pollerd starts no programs and opens no local sockets for it")
_DATAGRAMS = N_("sends datagrams, which are not guarded")
_OWN_SOCKETS = N_("opens its own sockets, which are not guarded")
_DEVICE = N_("uses a device of this machine")
_SERVICES: Final = {
    **dict.fromkeys(("dbus", "qt", "kde", "glib", "gnome", "macosx", "windows", "syslog", "file"), _LOCAL),
    **dict.fromkeys(("rsyslog", "growl"), _DATAGRAMS),
    **dict.fromkeys(
        ("aprs", "amqp", "amqps", "irc", "ircs", "mqtt", "mqtts", "smpp", "smpps", "xmpp", "xmpps", "nostr"),
        _OWN_SOCKETS,
    ),
    "blink1": _DEVICE,
    "deltachat": _LOCAL,
}
_OWN_RETRIES = N_("pollerd itself tries again, and no sooner than it should")
_TIMES = N_("pollerd sets the time limits")
_FILES = N_("no files and no other URLs are read")
_OPTIONS: Final = {
    "optional": N_("a message that was not sent would count as sent"),
    "retry": _OWN_RETRIES,
    "wait": _OWN_RETRIES,
    "redirect": N_("redirects are not followed"),
    "cto": _TIMES,
    "rto": _TIMES,
    "store": N_("nothing is kept on disk"),
    **dict.fromkeys(
        (
            "attach",
            "attachment",
            "template",
            "include",
            "keyfile",
            "subfile",
            "pgpkey",
            "pemkey",
            "pgp",
            "pem",
            "pubkey",
        ),
        _FILES,
    ),
    **dict.fromkeys(("tz", "timezone"), _FILES),
}
_FALSE = ("n", "0", "f", "-", "disable", "deny", "none")
"""How Apprise's words for no begin."""


def refused_service(scheme: str) -> str | None:
    """Returns why the service of a URL's scheme (lower case) is refused; None: it is not."""
    why = _SERVICES.get(scheme)
    return None if why is None else _(why)


def refused_option(name: str, value: str) -> str | None:
    """Returns why an option of a URL is refused, name and value in lower case; None: it is not."""
    if name == "verify" and (not value or value.startswith(_FALSE) or value == "off"):
        return _("certificates are always verified")
    if name == "overflow" and value.startswith("s"):
        return _("one message is sent as one")
    why = _OPTIONS.get(name)
    return None if why is None else _(why)


# Settings: one URL, which is secret as a whole but for its service.

APPRISE = "apprise"
FORMATS = ("text", "markdown", "html")
_SHAPE = re.compile(r"([A-Za-z][A-Za-z0-9]{0,31})://[!-~]{1,4000}")
_URL_ALLOWED = N_("an Apprise URL: service://…, printable ASCII, at most 4,000 characters")


_SCHEMES: Final = """
    46elks acs amqp amqps apprise apprises aprs atalk awswhatsapp azure bale bark barks betterstack blink1 bluesky
    brevo bsky bulksms bulkvs burstsms chanify clickatell clicksend cliq cm d7sms dapnet dbus deltachat deltachats
    dingtalk discord dot eight00com elks emby embys enigma2 enigma2s evolution evolutions exotel fcm feishu
    firehydrant flock flowtriq flowtriqs fluxer fluxers form forms freemobile gchat gio github glib gnome goalert
    goalerts gorush gorushs gotify gotifys groundmail groupme growl guilded gupshup hassio hassios httpsms humhub
    humhubs ifttt ilert incidentio infobip instagram irc ircs jellyfin jellyfins jira join json jsons kakao
    kakaotalk kaleyra kavenegar kde klr kodi kodis kook kudosity kumulos lametric lametrics lark lauther lfg line
    macosx mailersend mailgun mailto mailtos mastodon mastodons matrix matrixs misskey misskeys mmost mmosts
    mobilemessage mobilemsg mqtt mqtts msg91 msgbird ncloud nclouds nctalk nctalks nexmo nostr notica noticas
    notifiarr notifico notificos notifyapp notifyre ntfy ntfys o365 octopush onebot onebots onesignal opsgenie
    opsimate opsimates pagerduty pagertree parsep parseps pbul pinglet pinglets pingram pjet pjets plivo postmark
    pover prowl psafer psafers push pushdeer pushdeers pushed pushme pushplus pushward pushy qq qt reddit resend
    revolt ringc rocket rockets rsyslog ryver schan sendgrid sendpulse serwersms ses session sessions seven sfr
    signal signalgrid signals signl4 simplepush sinch slack smpp smpps smsc smseagle smseagles smsmanager smsmgr
    smstunnel smtp2go sns sogs sparkpost spike splunk spugpush spush squadcast stackfield strmlabs synology
    synologys syslog telesign telnyx tgram threema toot toots trigv trigvs tweet twilio twist twitter vapid viber
    victorops voipms vonage webex wechat wecom wecombot whapi whatsapp windows workflow workflows wpush wxpusher
    wxteams x xbmc xbmcs xmatters xml xmls xmpp xmpps youlmk zalo zcliq zohocliq zoom zulip
"""
SCHEMES: Final = frozenset(_SCHEMES.split())
"""The services that Apprise 2.3 knows; a page's address (http, https) may be one of theirs, too."""
_PAGES = ("http", "https")


class AppriseSettings(Struct, frozen=True):
    """What may be shown of an Apprise URL."""

    service: str
    """The URL's scheme, for example `ntfys`."""
    format: str = "text"
    """What the message is given as: `text`, `markdown` or `html`; Apprise converts it to what the service takes."""

    def address(self) -> object:
        """Returns what secrets are given for: another service needs another URL."""
        return self.service

    def uses(self, secret: str, fields: Mapping[str, str]) -> bool:
        """Returns whether a secret kept from before still serves, beside those that were given."""
        return not fields


def apprise_settings(raw: Mapping[str, Any]) -> tuple[AppriseSettings, dict[str, str]]:
    """Returns settings and secrets. Raises `InvalidValueError`, for services and options that are refused, too."""
    fields = GivenFields(raw, ("url", "service", "format"), ("url",))
    chosen = fields.choice("format", FORMATS, "text")
    url = fields.text("url", _URL_ALLOWED, 4_040)
    if url is None:  # as it was stored: the URL is a secret
        return AppriseSettings(fields.required("service", _("given by the URL"), 32), chosen), {}
    shape = _SHAPE.fullmatch(url)
    if shape is None:
        fields.refuse("url", _(_URL_ALLOWED))
    service = shape[1].lower()
    if service not in SCHEMES and service not in _PAGES:
        raise unknown_name("url", N_("service of Apprise"), service, sorted(SCHEMES))
    given_service = fields.raw("service")
    if given_service not in (None, service):
        raise refusal("service", _("the URL is one of {service}: leave service out, or give that", service=service))
    check_url(service, url)
    return AppriseSettings(service, chosen), {"url": url}


def check_url(service: str, url: str) -> None:
    """Raises `InvalidValueError` for a service or an option that breaks what pollerd promises."""
    why = refused_service(service)
    if why is not None:
        raise InvalidValueError(
            "url",
            _("a service that needs nothing but HTTP or SMTP; {service}: {why}", service=service, why=why),
            NOT_SHOWN,
        )
    for part in re.split(r"[?&;]", url)[1:]:
        name, _equals, value = part.partition("=")
        why = refused_option(unquote_plus(name).strip().lower(), unquote_plus(value).strip().lower())
        if why is not None:
            raise InvalidValueError(
                "url",
                _("without the option {unquote_plus!r}: {why}", unquote_plus=unquote_plus(name), why=why),
                NOT_SHOWN,
            )


_IDLE_SECONDS = 60.0
_STATUS = re.compile(r"\berror[= ](\d{3})\b")
_PARTS = re.compile(r"[:/?&=@,;#]+")
_SHORTEST_PART = 4
"""A shorter part of a URL is found in words that say nothing of it."""


class AppriseChannel:
    """One Apprise URL. Secret: `url`."""

    def __init__(self, settings: AppriseSettings, secrets: Mapping[str, str], environment: ChannelEnvironment) -> None:
        """Raises `InvalidValueError` for a URL that is refused by now."""
        self._settings, self._url, self._environment = settings, secrets["url"], environment
        check_url(settings.service, self._url)
        self._process = AppriseProcess(environment.guard)
        self._ending: asyncio.Task[None] | None = None

    async def send(self, message: Message, now: float) -> Receipt:
        """Sends the message in the format that the channel asks for; see `MessageChannel`. `now` is not told."""
        body = {"text": message.text, "markdown": message.markdown, "html": message.html}[self._settings.format]
        fields = {"url": self._url, "title": message.subject, "body": body, "format": self._settings.format}
        self._stay()
        try:
            async with asyncio.timeout(DEADLINE_SECONDS), self._environment.apprise_slots:
                answer = await self._process.send(_clean(fields))
        except TimeoutError:
            await self._process.kill()
            return Receipt(
                AnswerKind.RETRY,
                None,
                _("not known to be sent within {deadline_seconds:g} s", deadline_seconds=DEADLINE_SECONDS),
            )
        except LostProcessError as error:
            await self._process.kill()
            return Receipt(AnswerKind.RETRY, None, str(error))
        except BaseException:
            await self._process.kill()
            raise
        self._leave_soon()
        return self._answer(str(answer.get("status")), f"{answer.get('error', '')} {answer.get('log', '')}")

    def events_carried(self, message: Message) -> int:
        """Returns all: a chat is told how many more there are, with a link, rather than in dozens of messages."""
        return len(message.events)

    async def close(self) -> None:
        """Ends the process."""
        self._stay()
        await self._process.kill()

    def _answer(self, status: str, log: str) -> Receipt:
        if status == "SUCCESS":
            return Receipt(AnswerKind.SENT)
        if self._process.denial:
            return unanswered(OutcomeKind.BLOCKED_ADDRESS, self._process.denial)
        detail = detail_of(log, _secret_parts(self._url)) or _("Apprise says nothing more")
        if status == "INVALID":
            return Receipt(
                AnswerKind.REFUSED, None, detail_of(_("Apprise does not understand the URL: {detail}", detail=detail))
            )
        match = _STATUS.search(log)
        code = int(match[1]) if match else None
        kind = AnswerKind.RETRY if code is None or code < 400 else kind_of_answer(code)
        return Receipt(kind, code, detail)

    def _stay(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None

    def _leave_soon(self) -> None:
        self._ending = asyncio.get_running_loop().create_task(self._leave(), name="end-apprise")

    async def _leave(self) -> None:
        await asyncio.sleep(_IDLE_SECONDS)
        await self._process.kill()
        structlog.get_logger("pollerd.channels").debug("apprise_ended", service=self._settings.service)


def _clean(texts: Mapping[str, str]) -> dict[str, str]:
    """Returns the texts without halves of surrogate pairs, which JSON cannot hold."""
    return {name: value.encode("utf-8", "replace").decode() for name, value in texts.items()}


def _secret_parts(url: str) -> list[str]:
    """Returns what of a URL must not be shown: all of it behind the service, as written and as meant."""
    rest = url.partition("://")[2]
    parts = [url, rest, *_PARTS.split(rest)]
    parts = [*parts, *(unquote(part) for part in parts), *(unquote_plus(part) for part in parts)]
    return [part for part in parts if len(part) >= _SHORTEST_PART]
