"""Settings of e-mail, which are read without the library that sends."""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.utils import getaddresses
from typing import Any

from msgspec import Struct

from pollerd.notifications.channels.channel import (
    GivenFields,
)
from pollerd.texts import N_, _

MAIL = "email"
STARTTLS, TLS, PLAIN = "starttls", "tls", "none"
_PORTS = {STARTTLS: 587, TLS: 465, PLAIN: 25}
_KNOWN = ("host", "port", "security", "sender", "recipients", "username", "password")
_MAX_RECIPIENTS = 50
_ADDRESS = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
_SEMICOLON = re.compile(r';(?=(?:[^"]*"[^"]*")*[^"]*\Z)')  # outside quotes
_ADDRESS_ALLOWED = N_("an address like name@example.org, in ASCII; commas between several")


class MailSettings(Struct, frozen=True):
    """The server that takes e-mails, and whom they are for."""

    host: str
    port: int
    sender: str
    recipients: tuple[str, ...]
    security: str = STARTTLS
    """`starttls` or `tls`: certificates are verified, and nothing is sent without; `none`: nothing is encrypted."""
    username: str | None = None

    def address(self) -> object:
        """Returns what the password is given for: never for a connection less safe."""
        return (self.host, self.port, self.security, self.username)

    def uses(self, secret: str, fields: Mapping[str, str]) -> bool:
        """Returns whether a secret kept from before still serves, beside those that were given."""
        return self.username is not None


def mail_settings(raw: Mapping[str, Any]) -> tuple[MailSettings, dict[str, str]]:
    """Returns settings and secrets. Raises `InvalidValueError`."""
    fields = GivenFields(raw, _KNOWN, ("password",))
    security = fields.choice("security", tuple(_PORTS), STARTTLS)
    settings = MailSettings(
        host=fields.host("host"),
        port=fields.port(_PORTS[security]),
        security=security,
        sender=_sender(fields),
        recipients=_recipients(fields),
        username=fields.text("username", _("1 to 320 printable characters"), 320),
    )
    password = fields.text("password", _("1 to 1,000 printable characters"))
    if password is not None and settings.username is None:
        fields.refuse("username", _("given with a password"))
    return settings, {} if password is None else {"password": password}


def _recipients(fields: GivenFields) -> tuple[str, ...]:
    raw = fields.raw("recipients")
    texts = [raw] if isinstance(raw, str) else raw
    if not isinstance(texts, list | tuple) or not 0 < len(texts) <= _MAX_RECIPIENTS:
        fields.refuse("recipients", _("a list of 1 to {max_recipients} addresses", max_recipients=_MAX_RECIPIENTS))
    addresses = list(dict.fromkeys(address for text in texts for address in _addresses(fields, "recipients", text)))
    if len(addresses) > _MAX_RECIPIENTS:
        fields.refuse("recipients", _("a list of 1 to {max_recipients} addresses", max_recipients=_MAX_RECIPIENTS))
    return tuple(addresses)


def _sender(fields: GivenFields) -> str:
    addresses = _addresses(fields, "sender", fields.raw("sender"))
    return addresses[0] if len(addresses) == 1 else fields.refuse("sender", _(_ADDRESS_ALLOWED))


def _addresses(fields: GivenFields, name: str, value: object) -> list[str]:
    """Returns the addresses of a text: `a@example.org, Name <b@example.org>`; names are not kept."""
    if not isinstance(value, str) or not value.isprintable():
        return fields.refuse(name, _(_ADDRESS_ALLOWED))
    addresses = [address for _name, address in getaddresses([_SEMICOLON.sub(",", value).strip(" ,")])]
    if not addresses or not all(map(_ADDRESS.fullmatch, addresses)):
        return fields.refuse(name, _(_ADDRESS_ALLOWED))
    return addresses
