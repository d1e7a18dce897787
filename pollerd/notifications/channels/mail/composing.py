"""Makes an e-mail of a message: the same at every attempt, but for its Date.

Headers are written here, not by `email`: it turns long URLs into encoded words. What messages contain is data: nothing
in it can begin another header or line.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from datetime import UTC, datetime
from email.header import Header
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

from pollerd.notifications.channels.mail.settings import MailSettings
from pollerd.notifications.message import Message

_MOST_SUBJECT, _MOST_URL = 200, 900
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
    if not _URL.fullmatch(url) or len(url) > _MOST_URL:
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
    kept = (" " if unicodedata.category(one) in ("Cc", "Zl", "Zp") else one for one in text if one not in _DROPPED)
    line = " ".join(_writable("".join(kept)).split())
    cut = line if len(line) <= _MOST_SUBJECT else line[: _MOST_SUBJECT - 1] + "…"
    charset = "us-ascii" if cut.isascii() else "utf-8"
    return Header(cut, charset, header_name="Subject").encode(linesep=_LINE)


def _writable(text: str) -> str:
    """Returns text that UTF-8 can hold, without NUL and lone carriage returns."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")
    return text.encode("utf-8", "replace").decode()


def _safe(given: str) -> str:
    return given if _ID.fullmatch(given) else _digest(given)


def _digest(*given: str) -> str:
    return hashlib.sha256("\n".join(given).encode("utf-8", "backslashreplace")).hexdigest()[:16]
