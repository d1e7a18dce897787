"""Settings of a channel by Apprise: one URL, which is secret as a whole but for its service."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote_plus

from msgspec import Struct

from pollerd.errors import InvalidValueError
from pollerd.masking import NOT_SHOWN
from pollerd.notifications.channels.apprise.refusals import refused_option, refused_service
from pollerd.notifications.channels.fields import GivenFields

APPRISE = "apprise"
FORMATS = ("text", "markdown", "html")
_SHAPE = re.compile(r"([A-Za-z][A-Za-z0-9]{0,31})://[!-~]{1,4000}")
_URL_ALLOWED = "an Apprise URL: service://…, printable ASCII, at most 4,000 characters"


class AppriseSettings(Struct, frozen=True):
    """What may be shown of an Apprise URL."""

    service: str
    """The URL's scheme, for example `ntfys`."""
    format: str = "text"
    """What the message is given as: `text`, `markdown` or `html`; Apprise converts it to what the service takes."""

    def address(self) -> object:
        """Returns what secrets are given for: another service needs another URL."""
        return self.service

    def uses(self, secret: str, given: Mapping[str, str]) -> bool:
        """Returns whether a secret kept from before still serves, beside those that were given."""
        return not given


def apprise_settings(given: Mapping[str, Any]) -> tuple[AppriseSettings, dict[str, str]]:
    """Returns settings and secrets. Raises `InvalidValueError`, for services and options that are refused, too."""
    fields = GivenFields(given, ("url", "service", "format"), ("url",))
    chosen = fields.choice("format", FORMATS, "text")
    url = fields.text("url", _URL_ALLOWED, 4_040)
    if url is None:  # as it was stored: the URL is a secret
        return AppriseSettings(fields.required("service", "given by the URL", 32), chosen), {}
    shape = _SHAPE.fullmatch(url)
    if shape is None:
        fields.refuse("url", _URL_ALLOWED)
    service = shape[1].lower()
    given_service = fields.raw("service")
    if given_service not in (None, service):
        fields.refuse("service", f"left out, or as in the URL: {service}")
    check_url(service, url)
    return AppriseSettings(service, chosen), {"url": url}


def check_url(service: str, url: str) -> None:
    """Raises `InvalidValueError` for a service or an option that breaks what pollerd promises."""
    why = refused_service(service)
    if why is not None:
        raise InvalidValueError("url", f"a service that needs nothing but HTTP or SMTP; {service}: {why}", NOT_SHOWN)
    for part in re.split(r"[?&;]", url)[1:]:
        name, _, value = part.partition("=")
        why = refused_option(unquote_plus(name).strip().lower(), unquote_plus(value).strip().lower())
        if why is not None:
            raise InvalidValueError("url", f"without the option {unquote_plus(name)!r}: {why}", NOT_SHOWN)
