"""Mail by SMTP, over a connection that the guard allowed."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

import aiosmtplib

from pollerd.errors import InvalidValueError
from pollerd.fetching import DENIED_ERRNO, FetchSettings, Guard, dial, one_line
from pollerd.notifications.channels.settings import EmailSettings
from pollerd.notifications.message import Answer, AnswerKind, Message

DEADLINE_SECONDS = 60.0
_CREDENTIALS_REFUSED = frozenset({454, 530, 534, 535, 538})
"""Replies that concern our credentials (RFC 4954)."""


class EmailChannel:
    """Sends to the recipients of one channel, a connection a message."""

    def __init__(self, settings: EmailSettings, secrets: Mapping[str, str], fetching: FetchSettings) -> None:
        """Raises InvalidValueError for a `ca_file` that cannot be loaded."""
        self._settings, self._password = settings, secrets.get("password")
        self._guard = Guard(fetching.allow_private)
        self._tls = _context(fetching.ca_file)

    async def send(self, message: Message, now: float) -> Answer:
        """Sends once, to all recipients; a message that only some accepted is tried again for all. now: epoch s."""
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                return await self._send(message, now)
        except TimeoutError:
            return Answer(AnswerKind.RETRY, detail=f"no complete answer within {DEADLINE_SECONDS:g} s")
        except aiosmtplib.SMTPAuthenticationError as error:
            return Answer(AnswerKind.REFUSED, error.code, self._said(error))
        except aiosmtplib.SMTPRecipientsRefused as error:
            codes = [one.code for one in error.recipients]
            return self._refused(min(codes, default=550), self._said(error))
        except aiosmtplib.SMTPResponseException as error:
            return self._refused(error.code, self._said(error))
        except (aiosmtplib.SMTPException, OSError) as error:
            return Answer(AnswerKind.RETRY, detail=self._said(error))

    async def close(self) -> None:
        """Nothing is kept between messages."""

    async def _send(self, message: Message, now: float) -> Answer:
        settings = self._settings
        sock = await dial(self._guard, settings.host, settings.port)
        client = aiosmtplib.SMTP(
            hostname=settings.host,
            port=None,
            sock=sock,
            use_tls=settings.security == "tls",
            start_tls=settings.security == "starttls",
            tls_context=self._tls if settings.security != "none" else None,
            validate_certs=True,
            timeout=DEADLINE_SECONDS,
        )
        try:
            async with client:
                if settings.username or self._password:
                    await client.login(settings.username, self._password or "")
                written = self.written(message, now)
                refused, said = await client.send_message(
                    written, sender=settings.sender, recipients=list(settings.recipients)
                )
        finally:
            sock.close()
        if refused:
            codes = {address: reply.code for address, reply in refused.items()}
            names = ", ".join(f"{address} ({code})" for address, code in codes.items())
            return self._refused(min(codes.values()), self._hidden(f"not accepted for {names}"), some_accepted=True)
        return Answer(AnswerKind.SENT, 250, self._hidden(said))

    def written(self, message: Message, now: float) -> EmailMessage:
        """Returns the mail: text first, then HTML. Its Message-ID is the same at every attempt."""
        settings = self._settings
        domain = settings.sender.partition("@")[2]
        mail = EmailMessage(policy=SMTP)
        mail["From"] = Address("pollerd", addr_spec=settings.sender)
        mail["To"] = [Address(addr_spec=one) for one in settings.recipients]
        mail["Subject"] = message.subject
        mail["Date"] = format_datetime(datetime.fromtimestamp(now, UTC))
        receivers = hashlib.sha256(",".join(settings.recipients).encode()).hexdigest()[:12]
        mail["Message-ID"] = f"<{message.id}.{receivers}@{domain}>"
        mail["Auto-Submitted"] = "auto-generated"
        mail["List-Id"] = f"<changes.pollerd.{domain}>"
        if message.thread:
            root = f"<{message.thread}.pollerd@{domain}>"
            mail["References"] = root
            mail["In-Reply-To"] = root
        if message.unsubscribe_url:
            mail["List-Unsubscribe"] = f"<{message.unsubscribe_url}>"
            if message.unsubscribe_url.startswith("https://"):  # RFC 8058 asks for https
                mail["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
        mail.set_content(message.text, cte="quoted-printable")
        mail.add_alternative(message.html, subtype="html", cte="quoted-printable")
        return mail

    def _refused(self, code: int, detail: str, *, some_accepted: bool = False) -> Answer:
        if code in _CREDENTIALS_REFUSED and not some_accepted:
            return Answer(AnswerKind.REFUSED, code, detail)
        return Answer(AnswerKind.DEAD if code >= 500 else AnswerKind.RETRY, code, detail)

    def _said(self, error: Exception) -> str:
        if isinstance(error, OSError) and error.errno == DENIED_ERRNO:
            return self._hidden(f"{self._settings.host}: {error.strerror}")
        return self._hidden(str(error) or type(error).__name__)

    def _hidden(self, text: str) -> str:
        return one_line(text.replace(self._password, "***") if self._password else text)


def _context(ca_file: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if ca_file is not None:
        try:
            context.load_verify_locations(cafile=ca_file)
        except (OSError, ssl.SSLError) as error:
            raise InvalidValueError("ca_file", "a PEM file of certificate authorities", ca_file) from error
    return context
