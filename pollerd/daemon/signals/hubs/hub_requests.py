"""Asks hubs to subscribe, or to end a subscription."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from urllib.parse import urlencode

from msgspec import Struct

from pollerd.errors import InvalidValueError
from pollerd.fetching import Posted, Poster
from pollerd.urls import join_url

MOST_REDIRECTS = 3
_SECONDS = 20.0
_MOST_BYTES = 1_000
"""Of a hub's answer: the reason of a refusal is read, no more."""
_KEEPING_METHOD = frozenset({HTTPStatus.TEMPORARY_REDIRECT, HTTPStatus.PERMANENT_REDIRECT})
_FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class HubAnswer(Struct, frozen=True):
    """What a hub answered. accepted: it will verify. retry_after: s that it asked to wait."""

    accepted: bool
    detail: str
    retry_after: float | None = None


async def ask_hub(poster: Poster, hub: str, fields: Mapping[str, str], clock: Callable[[], float]) -> HubAnswer:
    """Posts a form to the hub at the normalised URL, through the guard of `poster`. Raises nothing for its faults.

    Follows redirects that keep the method, 307 and 308, at most three and none from https to http; each is dialled
    through the guard.
    """
    body, url = urlencode(fields).encode(), hub
    for _ in range(MOST_REDIRECTS + 1):
        posted = await poster.post(url, _FORM, body, now=clock(), seconds=_SECONDS, most=_MOST_BYTES)
        if posted.status not in _KEEPING_METHOD:
            return _answer(posted)
        target = _target(url, posted.location)
        if target is None:
            return HubAnswer(False, f"the hub redirects ({posted.status}) to no usable URL")
        url = target
    return HubAnswer(False, f"the hub redirects more than {MOST_REDIRECTS} times")


def _target(url: str, location: str | None) -> str | None:
    if location is None:
        return None
    try:
        target = join_url(url, location)
    except InvalidValueError:
        return None
    return None if url.startswith("https:") and not target.startswith("https:") else target


def _answer(posted: Posted) -> HubAnswer:
    if posted.status is None:
        return HubAnswer(False, f"the hub cannot be asked: {posted.detail}")
    if HTTPStatus.OK <= posted.status < HTTPStatus.MULTIPLE_CHOICES:
        return HubAnswer(True, "asked for; the hub has not verified it yet")
    said = " ".join(posted.beginning.decode("utf-8", "replace").split())
    reason = f": {said[:200]}" if said.isprintable() and said else ""
    return HubAnswer(False, f"the hub refuses with status {posted.status}{reason}", posted.retry_after)
