"""Prepares given values for error messages: shortened, and without possible passwords.

An invalid value is often a secret in the wrong place. Masking hides too much rather than too little: in text that
cannot be parsed the end of a value is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache

NOT_SHOWN = "(not shown)"
SHOWN = 200
"""Maximum number of characters shown."""
_LOOKED_AT = 1_000
"""Number of characters examined: more than are shown, so that a name at the end is complete."""
_SECRET_WORDS = (
    *("auth", "bearer", "cookie", "cred", "header", "key", "login", "pass", "proxy", "pwd", "secret", "session"),
    *("token", "user"),
)
_SECRET_WORD = re.compile("|".join(_SECRET_WORDS), re.IGNORECASE)
_NAMED_SECRET = re.compile(rf"(?:{_SECRET_WORD.pattern})[\w.-]*[\s\"'\\]*[:=]", re.IGNORECASE)
_ATS = ("@", "%40", "\N{FULLWIDTH COMMERCIAL AT}", "\N{SMALL COMMERCIAL AT}")
_SCHEME = re.compile(r"https?://", re.IGNORECASE)
_NO_PORT = re.compile(r"(https?://[^/?#\s:\[\]\"']*):(?![0-9]{1,5}(?:[/?#\s\"'.,]|$))[^/?#\s\"']*", re.IGNORECASE)
_PLAIN = re.compile(r"[^\s\"'{}=?&]*")
"""User and password without characters that suggest another meaning."""
_URL = re.compile(r"[\s\"'\ufeff]*(https?://[^\s\"'?#]*)", re.IGNORECASE)


def is_secret_name(name: str) -> bool:
    """Returns whether the name suggests a secret: by a word in it, misspelt or misplaced too."""
    return _SECRET_WORD.search(name) is not None


def masked(text: str) -> str:
    """Returns a value for messages: without user and password of URLs, and cut after the name of a secret."""
    shown, at, rest = _parted_at_userinfo(text)
    if at:
        plain = _PLAIN.fullmatch(text, len(shown), len(text) - len(rest)) is not None
        # The @ may belong to a secret that is named before it, and its other half may follow.
        whole = plain or _NAMED_SECRET.search(text[:_LOOKED_AT]) is None
        text = f"{shown}…@{rest}" if whole else f"{shown}…"
    named = _NAMED_SECRET.search(text[:_LOOKED_AT])
    if named is not None:
        text = text[: named.end()].removesuffix("…") + "…"
    return _cut(_NO_PORT.sub(r"\1:…", text[:_LOOKED_AT]))


def masked_line(line: str, numbers: Collection[str]) -> str:
    """Returns an unparsable line for messages: its URL, or the known fields at its beginning.

    Field names distinguish secrets only in lines that can be parsed. So only what is known not to be secret is shown: a
    URL without its query, and settings that are numbers, of these names.
    """
    url = _URL.match(line, 0, _LOOKED_AT)
    if url is not None:
        rest = line[url.end() :]
        shown = "http://" if any(sign in rest for sign in _ATS) else masked(url[1])
        return shown + ("…" if rest.strip("\"' \t\r\n") else "")
    known = _known_beginning(tuple(numbers)).match(line, 0, _LOOKED_AT)
    shown = masked(known[0].strip(" {")) if known is not None else ""
    return f"{shown.removesuffix('…')}…" if shown else NOT_SHOWN


@lru_cache(maxsize=4)
def _known_beginning(numbers: tuple[str, ...]) -> re.Pattern[str]:
    number = rf"\"(?:{'|'.join(numbers)})\"\s*:\s*[-+.\deE]{{1,24}}"
    return re.compile(rf"\s*\{{?(?:\s*(?:{number}|\"url\"\s*:\s*\"https?://[^\s\"\\?#]*\")\s*,?)*")


def _parted_at_userinfo(text: str) -> tuple[str, bool, str]:
    """Splits a text into the part up to the first scheme, whether user and password follow, and the part after them.

    Everything between the first scheme and the last @ may be user and password: they may contain any character.
    """
    end, at = max((text.rfind(sign), sign) for sign in _ATS)
    if end < 0 or not any(sign in text[:end] for sign in ":/\\"):
        return text, False, ""
    scheme = _SCHEME.search(text, 0, end)
    return text[: scheme.end()] if scheme else "", True, text[end + len(at) :]


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"
