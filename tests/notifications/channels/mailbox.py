"""A real SMTP server on loopback that a test tells how to behave."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default
from typing import Any, cast

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session


@dataclass
class Mailbox:
    """What came in, and what the server says."""

    port: int = 0
    mails: list[tuple[list[str], bytes]] = field(default_factory=list)
    """(recipients, bytes), of those taken."""
    recipients: dict[str, str] = field(default_factory=dict)
    """Address -> refusal."""
    data: str = "250 taken"
    drop_after_data: bool = False
    sender: str = ""
    users: dict[bytes, bytes] = field(default_factory=dict)
    connections: int = 0

    async def handle_MAIL(self, _: SMTP, __: Session, envelope: Envelope, address: str, options: list[str]) -> str:
        if self.sender:
            return self.sender
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return "250 OK"

    async def handle_RCPT(self, _: SMTP, __: Session, envelope: Envelope, address: str, ___: Any) -> str:
        if address in self.recipients:
            return self.recipients[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, _: Session, envelope: Envelope) -> str:
        content = envelope.original_content
        assert content is not None
        if self.data.startswith("2"):
            self.mails.append((list(envelope.rcpt_tos), content))
        if self.drop_after_data:
            assert server.transport is not None
            cast(asyncio.Transport, server.transport).abort()
        return self.data

    def authenticate(self, _: SMTP, __: Session, ___: Envelope, ____: str, data: Any) -> AuthResult:
        assert isinstance(data, LoginPassword)
        return AuthResult(success=self.users.get(data.login) == data.password, handled=False)

    def parsed(self, number: int = -1) -> EmailMessage:
        """A mail as a reader's program sees it."""
        return BytesParser(policy=default).parsebytes(self.mails[number][1])


@asynccontextmanager
async def mailbox(
    tls: ssl.SSLContext | None = None, *, implicit: bool = False, behave: Callable[[Mailbox], None] | None = None
) -> AsyncIterator[Mailbox]:
    """Serves; with `tls` by STARTTLS, or from the first byte."""
    box = Mailbox()
    if behave is not None:
        behave(box)

    made: list[SMTP] = []

    def serve() -> SMTP:
        box.connections += 1
        protocol = SMTP(
            box,
            hostname="mail.example",
            ident="ready",
            tls_context=None if implicit else tls,
            auth_require_tls=tls is not None and not implicit,
            authenticator=box.authenticate if box.users else None,
        )
        made.append(protocol)
        return protocol

    server = await asyncio.get_running_loop().create_server(serve, "127.0.0.1", 0, ssl=tls if implicit else None)
    box.port = server.sockets[0].getsockname()[1]
    try:
        yield box
    finally:
        server.close()
        for protocol in made:
            if protocol.transport is not None:
                cast(asyncio.Transport, protocol.transport).abort()
        await server.wait_closed()
