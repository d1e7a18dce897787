"""URLs: normalisation, the host for politeness, and resolution of references.

Pure functions on strings. All URLs enter through `normalise_url`; other code relies on its result.
"""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import quote, unquote_to_bytes, urljoin

from yarl import URL

from pollerd.errors import InvalidValueError, refusal
from pollerd.masking import masked
from pollerd.texts import _, n_

MAX_URL_LENGTH = 2048
"""Characters; longer URLs break proxies, logs and database indexes."""

_DEFAULT_PORTS = {"http": 80, "https": 443}
_SHAPE = re.compile(r"(?P<scheme>https?)://(?P<authority>[^/?#]+)", re.IGNORECASE)
_BARE = re.compile(r"(?:[A-Za-z0-9-]{1,63}\.){1,10}[A-Za-z]{2,63}(?::[0-9]{1,5})?(?:[/?#][^\s]*)?")
"""An address as people type it, without its scheme."""
_FEED = re.compile(r"feed:(?://)?(?P<scheme>https?://)?", re.IGNORECASE)
"""How feed readers are called from a page."""
_TARGET = re.compile(r"^(?:feed:(?://)?)?(?:https?://)?[^/?]*", re.IGNORECASE)
"""What stands before path and query."""
_PORT = re.compile(r":(?P<port>[0-9]*)$")
_UNSAFE = re.compile(r"[\x00-\x20\x7f-\xa0\\\u1680\u2000-\u200f\u2028-\u202f\u205f-\u2064\u3000\ufeff\ud800-\udfff]")
_PATH = re.compile(
    r"/?[A-Za-z0-9_~-][A-Za-z0-9._~=&,@-]*(?:/(?![./])[A-Za-z0-9._~=&,@-]*)*(?:\?[A-Za-z0-9._~/=&,:@-]+)?"
)
"""Pattern of most references: they can be appended to the origin or the folder of their base unchanged."""
_SURROGATE = re.compile(r"[\udc80-\udcff]")
_LABEL = re.compile(r"[a-z0-9_-]{1,63}")
_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_WORD = r"[a-z0-9](?:[a-z0-9]|-(?!-)){0,62}"
NORMAL = re.compile(
    r"https?://(?=[^/:]{1,253}[/:])"
    rf"(?:(?:{_WORD}\.)*[a-z](?:[a-z0-9]|-(?!-)){{0,62}}|{_OCTET}(?:\.{_OCTET}){{3}})"
    r"(?::(?!80/|443/)[1-9][0-9]{1,3})?"
    r"(?:/(?!\.)[A-Za-z0-9._~=&,:@-]*)+"
    r"(?:\?[A-Za-z0-9._~/=&,:@-]+)?"
)
"""Pattern of most URLs in lists: already normal. Matching costs a tenth of normalisation."""
_NUMERIC = re.compile(r"[0-9]+|0x[0-9a-f]*")
_NUMBERS = {8: re.compile("0[0-7]*"), 10: re.compile("[1-9][0-9]*"), 16: re.compile("0x[0-9a-f]+")}
_DROPPED = str.maketrans("", "", "\t\r\n")
_UNSENDABLE = re.compile(r"[^!$-;=?-_a-z|~]+")
"""What browsers encode in a path or query, and what is not ASCII; `%` stays, even where no two digits follow."""
_MAX_HOST_LENGTH = 253
_MAX_SHOWN_LENGTH = 120


def normalise_url(text: str, *, fragment: bool = False) -> str:
    """Normalises an absolute http or https URL; `feed://example.org` is one, and `feed:https://example.org`.

    fragment: whether it is kept, for a browser that goes there.

    Strips surrounding spaces; lower-cases scheme and host, converts names beyond ASCII to punycode, drops one trailing
    dot of the host, the default port and, unless it is wanted, the fragment; replaces an empty path by `/`; resolves
    dot segments and makes percent-encoding uniform. A number as host, in any spelling accepted by C libraries
    (`0x7f.1`, `2130706433`), becomes the dotted IPv4 address that it means, so that address checks apply.

    Raises `InvalidValueError(field="url")` for another scheme, no host, a user name or password, whitespace, control
    characters or backslashes inside, a port outside 1..65535, or more than 2,048 characters.
    """
    text = text.strip(" \t\r\n")
    if len(text) > MAX_URL_LENGTH:
        raise _invalid(_("at most {max_url_length} characters", max_url_length=MAX_URL_LENGTH), text)
    return text if NORMAL.fullmatch(text) else made_normal(text, fragment=fragment)


def made_normal(text: str, *, fragment: bool = False) -> str:
    """`normalise_url` for any stripped text."""
    feed = _FEED.match(text)
    if feed is not None:
        text = f"{feed['scheme'] or 'http://'}{text[feed.end() :]}"
    shape = _SHAPE.match(text)
    if shape is None:
        if _BARE.fullmatch(text):
            raise refusal("url", _("{text!r} has no scheme; did you mean https://{text} ?", text=masked(text)))
        raise _invalid(_("an absolute http:// or https:// URL with a host"), text)
    if _UNSAFE.search(text):
        raise _invalid(_("free of whitespace, control characters and backslashes"), text)
    port = _port(shape["authority"], text)
    try:
        url = URL(text)
    except ValueError as error:
        raise _invalid(_("a well-formed URL"), text) from error
    authority = _host(url.raw_host or "", text)
    if port is not None and port != _DEFAULT_PORTS[url.scheme]:
        authority = f"{authority}:{port}"
    query = f"?{url.raw_query_string}" if url.raw_query_string else ""
    end = f"#{url.raw_fragment}" if fragment and url.raw_fragment else ""
    normal = f"{url.scheme}://{authority}{url.raw_path or '/'}{query}{end}"
    if len(normal) > MAX_URL_LENGTH:
        raise _invalid(_("at most {max_url_length} characters once encoded", max_url_length=MAX_URL_LENGTH), text)
    return normal


def spelling_of(text: str, normal: str) -> str:
    """Returns how an absolute URL is sent if not as `normal`, which `normalise_url` made of it; else "".

    The two differ in percent-encoding alone: by `%2f` for `/` in a query or `%7E` for `~` some servers find another
    page, or none, as those do that sign addresses. What HTTP cannot carry is encoded as browsers do.
    """
    text = text.strip(" \t\r\n")
    if text == normal:
        return ""
    place, hash_, fragment = normal.partition("#")
    beginning = origin_of(place)
    path, mark, query = _TARGET.sub("", text.partition("#")[0]).partition("?")
    normal_path, _mark, normal_query = place[len(beginning) :].partition("?")
    same = (path or "/", normal_path), (query, normal_query)
    if any(unquote_to_bytes(original) != unquote_to_bytes(made) for original, made in same):
        return ""  # with `..` in it
    sent = beginning + _UNSENDABLE.sub(lambda part: quote(part[0], safe=""), f"{path or '/'}{mark}{query}")
    return "" if sent == place or len(sent) > MAX_URL_LENGTH else f"{sent}{hash_}{fragment}"


def _port(authority: str, text: str) -> int | None:
    """Returns the port in `authority`, None without one; rejects user names and invalid ports."""
    if "@" in authority:
        raise _invalid(_("free of user name and password"), text)
    match = _PORT.search(authority)
    if match is None:
        if ":" in authority and not authority.endswith("]"):
            raise _invalid(_("a host with a port of digits only"), text)
        return None
    if not match["port"]:
        return None
    port = int(match["port"][:6])
    if not 1 <= port <= 65535:
        raise _invalid(_("a port from 1 to 65535"), text)
    return port


def _host(host: str, text: str) -> str:
    """Normalises `host` for a URL: a validated name, a dotted IPv4 address, or an IPv6 address in brackets."""
    if ":" in host:
        try:
            address = ipaddress.IPv6Address(host)
        except ipaddress.AddressValueError as error:
            raise _invalid(_("a valid IPv6 address in brackets"), text) from error
        if address.scope_id is not None:
            raise _invalid(_("an IPv6 address without a zone"), text)
        return f"[{address.compressed}]"
    host = host.removesuffix(".")
    labels = host.split(".")
    if _NUMERIC.fullmatch(labels[-1]):
        return _dotted(host, text)
    if len(host) > _MAX_HOST_LENGTH or not all(map(_LABEL.fullmatch, labels)):
        raise _invalid(_("a URL with a valid host name"), text)
    return host


def _dotted(host: str, text: str) -> str:
    """Returns the address that `inet_aton` reads from one to four numbers: the last fills the remaining bytes."""
    numbers = [number for part in host.split(".") if (number := _number(part)) is not None]
    *bytes_, last = numbers or [0]
    rest = 4 - len(bytes_)
    if len(numbers) <= host.count(".") or rest < 1 or last >= 256**rest or any(byte > 255 for byte in bytes_):
        raise _invalid(_("a valid IPv4 address where the host is a number"), text)
    return str(ipaddress.IPv4Address(bytes([*bytes_, *last.to_bytes(rest, "big")])))


def _number(text: str) -> int | None:
    """Parses a number as spelled in C (`0177`, `127`, `0x7f`), None if invalid."""
    return next((int(text, base) for base, form in _NUMBERS.items() if form.fullmatch(text)), None)


def _invalid(allowed: str, url: str) -> InvalidValueError:
    """Returns the error without possible secrets, which must not reach a log."""
    shown = masked(url)
    if len(url) > _MAX_SHOWN_LENGTH:
        length = n_("{count} character", "{count} characters", len(url))
        shown = f"{shown[:_MAX_SHOWN_LENGTH].removesuffix('…')}… ({length})"
    return InvalidValueError("url", allowed, shown)


def host_of(url: str) -> str:
    """Returns the host of a normalised URL for politeness: `name:port`, the default port included."""
    scheme, _separator, rest = url.partition("://")
    authority = rest.partition("/")[0]
    if ":" in authority and not authority.endswith("]"):
        return authority
    return f"{authority}:{_DEFAULT_PORTS[scheme]}"


def origin_of(url: str) -> str:
    """Returns scheme, host and port of a normalised URL, as in `https://example.org`; a default port is omitted."""
    scheme, _separator, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def robots_url(url: str) -> str:
    """Returns the URL of the robots.txt that applies to a normalised URL (RFC 9309, section 2.3)."""
    return f"{origin_of(url)}/robots.txt"


def join_url(base: str, reference: str) -> str:
    """Resolves `reference`, as found in a header or a page, against the absolute `base`; returns a normalised URL.

    Percent-encodes spaces and bytes that are not UTF-8 (surrogates here), as browsers do, and drops tabs and line ends.
    Raises `InvalidValueError(field="url")` as `normalise_url` does.
    """
    return normalise_url(resolved(base, reference))


def resolved(base: str, reference: str) -> str:
    """Returns the URL of `join_url`, not normalised: with the percent-encoding of the reference."""
    if len(reference) <= MAX_URL_LENGTH and NORMAL.fullmatch(reference):
        return reference
    if _PATH.fullmatch(reference):
        rooted = reference.startswith("/")
        return (origin_of(base) if rooted else _folder(base)) + reference
    text = _SURROGATE.sub(lambda byte: f"%{ord(byte[0]) & 0xFF:02X}", reference.translate(_DROPPED).strip(" "))
    try:
        return urljoin(base, text.replace(" ", "%20"))
    except ValueError as error:
        raise _invalid(_("a well-formed URL"), reference) from error


def _folder(url: str) -> str:
    path = url.partition("?")[0]
    return path[: path.rindex("/") + 1]
