"""What pages have in common: addresses, headers, forms, routes.

Addresses of our own pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, TypeVar
from urllib.parse import urlencode

from fastapi import Depends, Request
from starlette.datastructures import FormData, UploadFile

from pollerd.api.inputs import check_tag
from pollerd.errors import InvalidValueError
from pollerd.quantities import seconds
from pollerd.texts import _


def query(**parts: Any) -> str:
    """Returns the parts that are given as a query, with its question mark."""
    return f"?{urlencode({name: value for name, value in parts.items() if value not in (None, '', False)})}"


def within(address: str, root: str) -> str:
    """Returns an address that was sent, if it is at `root` or below; else `root`."""
    return address if address == root or address.startswith((f"{root}/", f"{root}?")) else root


def ours(address: str) -> str:
    """Returns an address that was sent, if it is a path of ours that browsers take for no other host; else "/"."""
    is_path = address.startswith("/") and not address.startswith("//") and "\\" not in address
    return address if is_path and address.isprintable() else "/"


# What a form posted.

E = TypeVar("E", bound=StrEnum)
_FIELDS = 5_000
_PART_BYTES = 64 * 1024 * 1024


class PostedForm:
    """The fields of a form, as text."""

    def __init__(self, data: FormData) -> None:
        self._data = data

    def text(self, name: str) -> str:
        """Returns a field without the space around it; empty where it was not sent."""
        value = self._data.get(name, "")
        return value.strip() if isinstance(value, str) else ""

    def whole(self, name: str) -> str:
        """Returns a field as it was sent, as passwords must be; empty where it was not sent."""
        value = self._data.get(name, "")
        return value if isinstance(value, str) else ""

    def texts(self, name: str) -> Sequence[str]:
        """Returns all fields of a name."""
        return [value for value in self._data.getlist(name) if isinstance(value, str)]

    def tags(self, name: str) -> list[str]:
        """Returns tags given in one field, as `tags_in_one_field` writes them. Raises `InvalidValueError`."""
        text = self.text(name)
        return [check_tag(tag, name) for tag in text.split(";" if ";" in text else ",") if tag.strip()]

    def has(self, name: str) -> bool:
        """Returns whether the field was sent: of a box, whether it is ticked."""
        return name in self._data

    async def file(self, name: str) -> bytes:
        """Returns the contents of a sent file, once; empty where none was chosen."""
        value = self._data.get(name)
        if not isinstance(value, UploadFile):
            return b""
        try:
            return await value.read()
        finally:
            await value.close()

    def file_name(self, name: str) -> str:
        """Returns the name of a sent file, as the browser says it; empty without one."""
        value = self._data.get(name)
        return value.filename or "" if isinstance(value, UploadFile) else ""

    def file_suffix(self, name: str) -> str:
        """Returns the suffix of a sent file's name, in lower case with its dot; empty without one."""
        stem, dot, suffix = self.file_name(name).rpartition(".")
        return f".{suffix.lower()}" if stem and dot else ""

    def numbers(self, name: str) -> list[int]:
        """Returns all fields of a name as ids. Raises `InvalidValueError`."""
        texts = self.texts(name)
        if not all(text.isascii() and text.isdecimal() and len(text) < 20 for text in texts):
            raise InvalidValueError(name, _("ids"), ", ".join(texts)[:100])
        return [int(text) for text in texts]

    def optional_number(self, name: str) -> float | None:
        """Returns a number; None where the field is empty. Raises `InvalidValueError`."""
        return number_of(name, self.text(name)) if self.text(name) else None

    def optional_duration(self, name: str) -> float | None:
        """Returns seconds, of texts like "90" and "1.5h"; None where it is empty. Raises `InvalidValueError`."""
        return seconds_of(name, self.text(name)) if self.text(name) else None


def tags_in_one_field(tags: Iterable[str]) -> str:
    """Returns tags as one field shows them: separated by commas, or by semicolons if one of them has a comma."""
    shown = list(tags)
    return "; ".join(shown) + ";" if any("," in tag for tag in shown) else ", ".join(shown)


def number_of(name: str, text: str) -> float:
    """Returns the number that a field or parameter says. Raises `InvalidValueError`."""
    try:
        return float(text)
    except ValueError:
        raise InvalidValueError(name, _("a number"), text) from None


def seconds_of(name: str, text: str) -> float:
    """Returns the seconds that a field or parameter says, as in "90" and "1.5h". Raises `InvalidValueError`."""
    try:
        return seconds(text)
    except ValueError as error:
        raise InvalidValueError(name, str(error), text) from None


def one_of(kind: type[E], name: str, text: str) -> E:
    """Returns the value of an enumeration that a field or parameter names. Raises `InvalidValueError`."""
    try:
        return kind(text)
    except ValueError:
        raise InvalidValueError(name, _("one of {names}", names=", ".join(kind)), text) from None


async def posted_form(request: Request) -> PostedForm:
    """Returns the form; the same one whenever it is asked for."""
    return PostedForm(await request.form(max_fields=_FIELDS, max_part_size=_PART_BYTES))


Posted = Annotated[PostedForm, Depends(posted_form)]


# What every page and file tells browsers: nothing foreign, nothing inline, no frames, nothing kept.

_CONTENT_POLICY = "; ".join(
    (
        "default-src 'none'",
        *(f"{kind}-src 'self'" for kind in ("script", "style", "img", "connect", "worker", "manifest")),
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types pollerd",
    )
)
POLICY: Mapping[str, str] = {
    "Content-Security-Policy": _CONTENT_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # With no-referrer browsers would send `Origin: null` from our own forms.
    "Referrer-Policy": "same-origin",
}
"""For pages and files."""
PAGE_HEADERS: Mapping[str, str] = {**POLICY, "Cache-Control": "no-store"}


# Which pages are open to whom: each route of the pages is declared here, and a test compares both ways.

PAGE_ROUTES = """
    visitor GET    /assets/*
    visitor GET    /assets/{build}/{name}
    visitor GET    /manifest.webmanifest
    visitor GET    /offline
    visitor GET    /service-worker.js
    visitor GET    /sign-in
    visitor POST   /sign-in
    visitor GET    /first-user
    visitor POST   /first-user
    read    POST   /sign-out
    read    GET    /password
    read    POST   /theme
    read    POST   /password
    read    GET    /
    read    GET    /live/state
    read    GET    /changes
    read    POST   /changes/seen
    read    GET    /changes/{change_id:id}
    read    GET    /collection
    read    GET    /jobs
    read    GET    /jobs/{job_id:id}
    write   POST   /jobs/{job_id:id}/undo
    read    GET    /plan
    read    GET    /budget
    read    GET    /alerts
    write   POST   /first-steps/dismiss
    write   POST   /first-steps/examples
    write   POST   /first-steps/examples/remove
    read    GET    /rules
    write   POST   /rules/channels
    write   GET    /rules/channels/new
    read    GET    /rules/channels/{channel_id:id}
    write   POST   /rules/channels/{channel_id:id}
    write   POST   /rules/channels/{channel_id:id}/delete
    write   POST   /rules/channels/{channel_id:id}/resend
    write   POST   /rules/channels/{channel_id:id}/test
    write   GET    /rules/new
    write   POST   /rules/new
    read    GET    /rules/{rule_id:id}
    write   POST   /rules/public-url
    write   POST   /rules/undo
    write   POST   /rules/{rule_id:id}/mute
    write   POST   /rules/{rule_id:id}
    write   POST   /rules/{rule_id:id}/delete
    read    GET    /sites
    write   POST   /sites
    write   POST   /sites/bulk
    read    GET    /sites/add
    read    GET    /sites/import
    write   POST   /sites/import
    read    GET    /sites/import/{import_id:id}
    write   POST   /sites/import/{import_id:id}/compare
    read    GET    /sites/{site_id:id}
    write   POST   /sites/{site_id:id}
    write   POST   /sites/{site_id:id}/accept-redirect
    read    GET    /sites/{site_id:id}/compare
    read    GET    /sites/{site_id:id}/counts
    read    GET    /sites/{site_id:id}/counts/picture
    write   POST   /sites/{site_id:id}/counts
    write   POST   /sites/{site_id:id}/delete
    write   POST   /sites/{site_id:id}/noise
    write   POST   /sites/{site_id:id}/pause
    write   POST   /sites/{site_id:id}/poll
    read    GET    /sites/{site_id:id}/polls
    write   POST   /sites/{site_id:id}/resume
    write   POST   /sites/{site_id:id}/use-browser
    read    GET    /sites/{site_id:id}/text
    read    GET    /sites/{site_id:id}/when
    write   POST   /sites/{site_id:id}/when
    read    GET    /system
    write   POST   /system/allocation
    write   GET    /system/accounts
    write   POST   /system/users
    write   POST   /system/users/{user_name}
    write   POST   /system/users/{user_name}/remove
    write   POST   /system/tokens
    write   POST   /system/tokens/{token_id:id}/withdraw
    write   POST   /system/sessions/{session_id:id}/end
    write   POST   /system/sign-out-everywhere
"""
"""All routes of the pages."""
