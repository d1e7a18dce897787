"""Fields of a site's request from what other programs say of it: URL, headers, cookies, proxy, tags."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import unquote, urlsplit, urlunsplit

from pollerd.errors import InvalidValueError
from pollerd.moving.draft import Draft
from pollerd.texts import _
from pollerd.urls import normalise_url, spelling_of

OWN_HEADERS = frozenset(
    {
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer"),
        *("transfer-encoding", "upgrade", "host", "content-length", "expect", "if-match", "if-modified-since"),
        *("if-none-match", "if-range", "if-unmodified-since", "range", "accept-encoding", "user-agent"),
    }
)
"""Headers that the daemon sets itself, and takes from nobody."""
MOST_HEADERS, MOST_HEADERS_SIZE = 32, 8192
MOST_TAGS, MOST_TAG_LENGTH = 64, 64
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")
_VALUE = re.compile(r"([\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?)?")
_PROXY = re.compile(r"https?://", re.IGNORECASE)


def set_url(draft: Draft, key: str, value: object) -> bool:
    """Sets the URL, spelled as it is; user name and password in it become credentials. False, with a line, if it
    cannot be.
    """
    if not isinstance(value, str):
        draft.report.not_carried(
            key, _("must be a text; it is a {name}: the whole entry is skipped", name=type(value).__name__)
        )
        return False
    try:
        bare, user = _without_user(value.strip())
        normal = normalise_url(bare)
        draft.url = spelling_of(bare, normal) or normal
    except (InvalidValueError, ValueError) as error:
        allowed = error.allowed if isinstance(error, InvalidValueError) else _("a well-formed URL")
        draft.report.not_carried(key, _("must be {allowed}: the whole entry is skipped", allowed=allowed))
        return False
    if user is not None:
        draft.fields["credentials"] = user
    fragment = bare.partition("#")[2]
    if fragment and not fragment.isdecimal():
        draft.report.approximated(
            key, _("what follows # is dropped: no server sees it; jobs of one URL become one site")
        )
    else:
        draft.report.carried(key)
    draft.name = draft.name or fragment
    return True


def _without_user(url: str) -> tuple[str, dict[str, str] | None]:
    parts = urlsplit(url)
    userinfo, at, place = parts.netloc.rpartition("@")
    if not at:
        return url, None
    user, _colon, password = userinfo.partition(":")
    return urlunsplit(parts._replace(netloc=place)), {"username": unquote(user), "password": unquote(password)}


def set_headers(draft: Draft, key: str, raw: object) -> None:
    """Adds headers from a mapping; names each that cannot be sent, and never a value."""
    if not isinstance(raw, Mapping):
        draft.report.not_carried(key, _("must be a table of texts; it is a {name}", name=type(raw).__name__))
        return
    if not raw:
        draft.report.nothing_said(key)
    for name, value in raw.items():
        add_header(draft, f"{key}.{name}", str(name), value)


def add_header(draft: Draft, key: str, name: str, value: object) -> None:
    """Adds one header; a later one replaces an earlier one of the same name."""
    text = str(value).strip() if isinstance(value, str | int | float) else None
    wrong = _wrong_header(name, text)
    headers: dict[str, str] = dict(_texts(draft.fields.get("headers")))
    headers = {known: old for known, old in headers.items() if known.lower() != name.lower()}
    size = sum(len(a) + len(b) for a, b in headers.items()) + len(name) + len(text or "")
    if wrong is None and (len(headers) >= MOST_HEADERS or size > MOST_HEADERS_SIZE):
        wrong = _(
            "more than {most_headers} headers, or {most_headers_size} characters together",
            most_headers=MOST_HEADERS,
            most_headers_size=MOST_HEADERS_SIZE,
        )
    if wrong is None and name.lower() == "authorization" and "credentials" in draft.fields:
        wrong = _("the URL has a user name and password already")
    if wrong is not None:
        draft.report.not_carried(key, wrong)
        return
    draft.fields["headers"] = {**headers, name: text}
    draft.report.carried(key)


def _wrong_header(name: str, value: str | None) -> str | None:
    if not _NAME.fullmatch(name):
        return _("no name of a header")
    if name.lower() in OWN_HEADERS:
        return _("pollerd sets this header itself")
    if value is None:
        return _("its value is no text")
    return None if _VALUE.fullmatch(value) else _("its value has other characters than printable ASCII")


def set_cookies(draft: Draft, key: str, raw: object) -> None:
    """Adds a Cookie header from a mapping, or a list of texts as `name=value`."""
    if isinstance(raw, Mapping):
        pairs = [f"{name}={value}" for name, value in raw.items()]
    elif isinstance(raw, list):
        pairs = [str(item) for item in raw]
    else:
        pairs = [str(raw)]
    before = str(dict(_texts(draft.fields.get("headers"))).get("Cookie", ""))
    add_header(draft, key, "Cookie", "; ".join(filter(None, [before, *pairs])))


def set_proxy(draft: Draft, key: str, value: object) -> None:
    """Sets the proxy if it is of a kind that pollerd can use."""
    if isinstance(value, str) and _PROXY.match(value.strip()):
        draft.fields["proxy"] = value.strip()
        draft.report.carried(key)
    else:
        draft.report.not_carried(key, _("only http:// and https:// proxies can be used"))


def set_tags(draft: Draft, key: str, values: Iterable[object]) -> None:
    """Adds tags, changed where pollerd's may not have their characters."""
    names = [str(tag) for tag in values]
    kept = [tag_of(tag) for tag in names]
    tags = list(dict.fromkeys([*_list(draft.fields.get("tags")), *filter(None, kept)]))
    if tags:
        draft.fields["tags"] = tags[:MOST_TAGS]
    if len(tags) > MOST_TAGS:
        draft.report.not_carried(key, _("only {most_tags} tags are kept", most_tags=MOST_TAGS))
    elif [tag.strip() for tag in names] != kept:
        draft.report.approximated(
            key,
            _("tags have at most {most_tag_length} printable characters, and no ';'", most_tag_length=MOST_TAG_LENGTH),
        )
    else:
        draft.report.carried(key)


def tag_of(text: str) -> str:
    """Returns the tag in characters that pollerd takes; empty if nothing is left."""
    printable = "".join(c if c.isprintable() else " " for c in text.replace(";", ","))
    return printable.strip()[:MOST_TAG_LENGTH].strip()


def _texts(value: object) -> Mapping[str, str]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[str]:
    return list(value) if isinstance(value, list) else []
