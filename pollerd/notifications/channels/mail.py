"""Channels by e-mail: messages are sent by SMTP, over a socket that was dialled through the guard.

One attempt is one connection and one e-mail to all recipients. If the server accepts it for some and refuses others
for now, the next attempt is for the remaining ones only; this is forgotten by a restart, and then all get it again,
under the same Message-ID. Recipients that are refused for good are named in the answer and not tried again.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
import unicodedata
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime
from email.header import Header
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

import aiosmtplib

from pollerd.fetching.guard import DIALLING_FAULTS, dial, why_not_dialled
from pollerd.notifications.channels.channel import (
    DEADLINE_SECONDS,
    ChannelEnvironment,
    detail_of,
    unanswered,
)
from pollerd.notifications.channels.mail_settings import STARTTLS, TLS, MailSettings
from pollerd.notifications.message import AnswerKind, Message, Receipt
from pollerd.texts import _

# The e-mail of a message: the same at every attempt, but for its Date.
#
# Headers are written here, not by `email`: it turns long URLs into encoded words. The contents of messages are data:
# nothing in them can begin another header or line.

_MAX_SUBJECT, _MAX_URL = 200, 900
_LINE = "\r\n"
_DROPPED = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Marks that turn the direction of text around: a subject could show what it does not say."""
_URL = re.compile(r"https?://[!-;=?-~]+")
_ID = re.compile(r"[A-Za-z0-9-]{1,40}")


def compose(message: Message, settings: MailSettings, host: str, now: float) -> bytes:
    """Returns the e-mail as it is sent: lines of at most 998 bytes, ASCII only. `host`: our name in its ids."""
    mailbox = _digest(settings.sender, *settings.recipients)
    headers = [
        f"From: {settings.sender}",
        f"To: {f',{_LINE} '.join(settings.recipients)}",
        f"Subject: {_subject(message.subject)}",
        f"Date: {format_datetime(datetime.fromtimestamp(now, UTC))}",
        f"Message-ID: <{_safe(message.id)}.{mailbox}@{host}>",
        "Auto-Submitted: auto-generated",
        f"List-Id: <alerts.{host}>",
        *_threading(message.thread, mailbox, host),
        *_unsubscribing(message.unsubscribe_url),
    ]
    return f"{_LINE.join(headers)}{_LINE}".encode("ascii") + _body(message)


def _threading(thread: str, mailbox: str, host: str) -> list[str]:
    """Returns headers that name a message which nobody has sent: what belongs together answers it."""
    if not thread:
        return []
    root = f"<{_safe(thread)}.{mailbox}@{host}>"
    return [f"In-Reply-To: {root}", f"References: {root}"]


def _unsubscribing(url: str) -> list[str]:
    if not _URL.fullmatch(url) or len(url) > _MAX_URL:
        return []
    one_click = ["List-Unsubscribe-Post: List-Unsubscribe=One-Click"] if url.startswith("https:") else []  # RFC 8058
    return [f"List-Unsubscribe: <{url}>", *one_click]


def _body(message: Message) -> bytes:
    """Returns the rest of the headers and both texts, in lines of at most 78 bytes."""
    mail = EmailMessage(policy=SMTP.clone(cte_type="7bit"))
    mail.set_content(_writable(message.text) or "\n")
    if message.html:
        mail.add_alternative(_writable(message.html), subtype="html")
        mail.set_boundary(f"={_digest(message.id)}=")  # the same at every attempt
    return mail.as_bytes()


def _subject(text: str) -> str:
    kept = (
        " " if unicodedata.category(character) in ("Cc", "Zl", "Zp") else character
        for character in text
        if character not in _DROPPED
    )
    line = " ".join(_writable("".join(kept)).split())
    cut = line if len(line) <= _MAX_SUBJECT else line[: _MAX_SUBJECT - 1] + "…"
    charset = "us-ascii" if cut.isascii() else "utf-8"
    return Header(cut, charset, header_name="Subject").encode(linesep=_LINE)


def _writable(text: str) -> str:
    """Returns text that UTF-8 can hold, without NUL and lone carriage returns."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")
    return text.encode("utf-8", "replace").decode()


def _safe(text: str) -> str:
    return text if _ID.fullmatch(text) else _digest(text)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode("utf-8", "backslashreplace")).hexdigest()[:16]


_QUIT_SECONDS = 2.0
_MAX_PARTLY_SENT = 1_000
_REFUSED_CODES = frozenset({530, 534, 535})
Refusals = dict[str, tuple[int, str]]
"""Recipient -> (code, text)."""


class MailChannel:
    """One mailbox or several, reached through one server. Secret: `password`."""

    def __init__(self, settings: MailSettings, secrets: Mapping[str, str], environment: ChannelEnvironment) -> None:
        self._settings, self._secrets, self._environment = settings, dict(secrets), environment
        self._settled: OrderedDict[str, Refusals] = OrderedDict()
        """Message partly sent -> recipients done with: (250, "") or refused for good."""

    async def send(self, message: Message, now: float) -> Receipt:
        """Sends the message to those recipients that have not got it; see `MessageChannel`."""
        settled = self._settled.get(message.id, {})
        left = [recipient for recipient in self._settings.recipients if recipient not in settled]
        mail = compose(message, self._settings, self._environment.host, now)
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                refused = await self._deliver(mail, left)
        except TimeoutError:
            return Receipt(
                AnswerKind.RETRY, None, _("no answer within {deadline_seconds:g} s", deadline_seconds=DEADLINE_SECONDS)
            )
        except (aiosmtplib.SMTPException, *DIALLING_FAULTS) as error:
            return self._answer_to(error)
        return self._answer(message.id, settled | {recipient: refused.get(recipient, (250, "")) for recipient in left})

    def events_carried(self, message: Message) -> int:
        """Returns how many events its bodies list; see `MessageChannel`."""
        return message.listed

    async def close(self) -> None:
        """Does nothing: no connection is kept."""

    async def _deliver(self, mail: bytes, recipients: list[str]) -> Refusals:
        """Sends one e-mail; returns who was refused, perhaps all. Raises `SMTPException` and `DIALLING_FAULTS`."""
        settings = self._settings
        sock = await dial(self._environment.guard, settings.host, settings.port)
        client = aiosmtplib.SMTP(
            hostname=settings.host,
            local_hostname=self._environment.host,
            timeout=DEADLINE_SECONDS,
            use_tls=settings.security == TLS,
            start_tls=settings.security == STARTTLS,
            tls_context=self._environment.tls,
            sock=sock,
        )
        try:
            await client.connect()
            if settings.username is not None:
                await _log_in(client, settings.username, self._secrets.get("password", ""))
            return await _transact(client, settings.sender, recipients, mail)
        finally:
            client.close()

    def _answer(self, message_id: str, settled: Refusals) -> Receipt:
        """Returns what the recipients' answers mean together."""
        for_now = {recipient: reply for recipient, reply in settled.items() if 400 <= reply[0] < 500}
        for_good = {recipient: reply for recipient, reply in settled.items() if reply[0] >= 500}
        if any(code in _REFUSED_CODES for code, _text in for_good.values()):
            return self._said(AnswerKind.REFUSED, for_good)
        self._settled.pop(message_id, None)
        if for_now:
            self._settled[message_id] = {
                recipient: reply for recipient, reply in settled.items() if recipient not in for_now
            }
            while len(self._settled) > _MAX_PARTLY_SENT:
                self._settled.popitem(last=False)
            return self._said(AnswerKind.RETRY, for_now)
        if len(for_good) == len(settled):
            return self._said(AnswerKind.DEAD, for_good)
        return self._said(AnswerKind.SENT, for_good) if for_good else Receipt(AnswerKind.SENT, 250)

    def _said(self, kind: AnswerKind, refused: Refusals) -> Receipt:
        codes = [code for code, _recipient in refused.values()]
        text = "; ".join(f"{recipient}: {code} {reply}" for recipient, (code, reply) in refused.items())
        status = 250 if kind is AnswerKind.SENT else codes[0]
        return Receipt(kind, status, self._hidden(_("refused for {text}", text=text)))

    def _answer_to(self, error: Exception) -> Receipt:
        """Returns what an error means. Before the e-mail itself is offered, a refusal says nothing about it."""
        if not isinstance(error, aiosmtplib.SMTPException):
            why, detail = why_not_dialled(error)
            return unanswered(why, self._hidden(detail))
        if not isinstance(error, aiosmtplib.SMTPResponseException):
            return Receipt(AnswerKind.RETRY, None, self._hidden(str(error.message)))
        code = error.code
        kind = AnswerKind.RETRY
        if code in _REFUSED_CODES or (isinstance(error, aiosmtplib.SMTPAuthenticationError) and code >= 500):
            kind = AnswerKind.REFUSED
        elif isinstance(error, aiosmtplib.SMTPSenderRefused | aiosmtplib.SMTPDataError) and code >= 500:
            kind = AnswerKind.DEAD
        return Receipt(kind, code, self._hidden(f"{code} {error.message}"))

    def _hidden(self, text: str) -> str:
        return detail_of(text, self._secrets.values())


async def _log_in(client: aiosmtplib.SMTP, username: str, password: str) -> None:
    """Logs in by one method: a wrong password that is tried by each could lock the account. Raises `SMTPException`."""
    await client.ehlo()
    offered = client.supported_auth_methods
    if "plain" in offered:
        await client.auth_plain(username, password)
    elif "login" in offered:
        await client.auth_login(username, password)
    elif "cram-md5" in offered:
        await client.auth_crammd5(username, password)
    else:
        raise aiosmtplib.SMTPException(_("the server takes no login by password here"))


async def _transact(client: aiosmtplib.SMTP, sender: str, recipients: list[str], mail: bytes) -> Refusals:
    """Offers the e-mail; returns who was refused. Raises `SMTPException`."""
    try:
        refused, _answer = await client.sendmail(sender, recipients, mail)
    except aiosmtplib.SMTPRecipientsRefused as error:
        return {recipient.recipient: (recipient.code, str(recipient.message)) for recipient in error.recipients}
    with contextlib.suppress(aiosmtplib.SMTPException, OSError):  # it is sent already
        await client.quit(timeout=_QUIT_SECONDS)
    return {recipient: (response.code, str(response.message)) for recipient, response in refused.items()}
