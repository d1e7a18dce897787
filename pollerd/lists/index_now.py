"""Reports in the form of the IndexNow protocol (indexnow.org): URLs of a host, and the key that proves them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from pollerd.errors import InvalidValueError
from pollerd.texts import _
from pollerd.urls import host_of, join_url, normalise_url, origin_of

MAX_URLS = 10_000
LONGEST_KEY = 128
_KEY = re.compile(r"[A-Za-z0-9-]{8,128}")


class IndexNowReport(Struct, frozen=True):
    """Distinct normalised URLs of one host, the key, and the normalised URL of the file that holds it."""

    host: str
    key: str
    key_location: str
    urls: tuple[str, ...]


def index_now_report(urls: Sequence[str], key: str, host: str | None, key_location: str | None) -> IndexNowReport:
    """Checks a report as it was written; host and key_location: None if left out.

    The key file is at the root of the host, or at key_location on the same scheme, host and port; then it speaks for
    URLs in its folder and below. Raises `InvalidValueError` naming the field in the protocol's words.
    """
    if not 1 <= len(urls) <= MAX_URLS:
        raise InvalidValueError("urlList", _("1 to {max_urls:,} URLs", max_urls=MAX_URLS), len(urls))
    if _KEY.fullmatch(key) is None:
        raise InvalidValueError("key", _("8 to 128 letters, digits and dashes"), key[:LONGEST_KEY])
    urls_given = tuple(dict.fromkeys(_url(f"urlList[{place}]", url) for place, url in enumerate(urls)))
    origin = origin_of(urls_given[0])
    if host is not None and _host_named(host, origin) != host_of(urls_given[0]):
        raise InvalidValueError("host", _("the host of every URL"), host[:200])
    place = join_url(origin, f"/{key}.txt") if key_location is None else _url("keyLocation", key_location)
    if origin_of(place) != origin or "?" in place:
        raise InvalidValueError("keyLocation", _("a URL without query on the host of the URLs"), place[:200])
    folder = place[: place.rindex("/") + 1]
    for number, url in enumerate(urls_given):
        if not url.startswith(folder):
            raise InvalidValueError(
                f"urlList[{number}]", _("below {folder}, where the key is", folder=folder), url[:200]
            )
    return IndexNowReport(host_of(urls_given[0]), key, place, urls_given)


def holds_key(body: bytes, key: str) -> bool:
    """Returns whether a key file holds the key, and nothing else but white space and a byte order mark."""
    return body.removeprefix(b"\xef\xbb\xbf").strip() == key.encode()


def _url(field: str, text: str) -> str:
    try:
        return normalise_url(text)
    except InvalidValueError as error:
        raise error.of(field, given=text[:200]) from error


def _host_named(host: str, origin: str) -> str:
    """Returns a host as it was written, as `host_of` has it."""
    scheme = origin.partition(":")[0]
    if "/" in host or "?" in host:
        raise InvalidValueError("host", _("a host, and perhaps a port"), host[:200])
    return host_of(_url("host", f"{scheme}://{host}/"))
