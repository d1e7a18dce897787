"""What was given, as it may be told again: short, and without what may be a password.

What is given wrongly is often a secret in the wrong place. Masking hides too much rather than too little: where a value
ends is not known in a text that cannot be read.
"""

from __future__ import annotations

import re

NOT_SHOWN = "(not shown)"
SHOWN = 200
"""Characters that are told at most."""
_LOOKED_AT = 1_000
"""More than is told is looked at, so that a name at the end is seen whole."""
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
"""User and password in which nothing else may have been meant."""
_URL = re.compile(r"[\s\"'\ufeff]*(https?://[^\s\"'?#]*)", re.IGNORECASE)
_KNOWN_NUMBER = r"\"(?:weight|cost|min_interval|max_interval|half_life)\"\s*:\s*[-+.\deE]{1,24}"
_KNOWN_BEGINNING = re.compile(rf"\s*\{{?(?:\s*(?:{_KNOWN_NUMBER}|\"url\"\s*:\s*\"https?://[^\s\"\\?#]*\")\s*,?)*")


def is_secret_name(name: str) -> bool:
    """Whether what bears this name may be secret: by a word in it, misspelt or misplaced too."""
    return _SECRET_WORD.search(name) is not None


def masked(text: str) -> str:
    """A value as it may be told: without user and password of URLs, and cut where something secret is named."""
    shown, at, rest = _parted_at_userinfo(text)
    if at:
        plain = _PLAIN.fullmatch(text, len(shown), len(text) - len(rest)) is not None
        # Where the @ may be one of a secret that is named before it, what follows it may be its other half.
        whole = plain or _NAMED_SECRET.search(text[:_LOOKED_AT]) is None
        text = f"{shown}…@{rest}" if whole else f"{shown}…"
    named = _NAMED_SECRET.search(text[:_LOOKED_AT])
    if named is not None:
        text = text[: named.end()].removesuffix("…") + "…"
    return _cut(_NO_PORT.sub(r"\1:…", text[:_LOOKED_AT]))


def masked_line(line: str) -> str:
    """A line that could not be read, as it may be told: its URL, or the fields before those that are not known.

    Names of fields tell secrets from the rest only where a line can be read. So of this one only what is known not to
    be secret is told: a URL without its query, and settings that are numbers.
    """
    url = _URL.match(line, 0, _LOOKED_AT)
    if url is not None:
        rest = line[url.end() :]
        shown = "http://" if any(sign in rest for sign in _ATS) else masked(url[1])
        return shown + ("…" if rest.strip("\"' \t\r\n") else "")
    known = _KNOWN_BEGINNING.match(line, 0, _LOOKED_AT)
    shown = masked(known[0].strip(" {")) if known is not None else ""
    return f"{shown.removesuffix('…')}…" if shown else NOT_SHOWN


def _parted_at_userinfo(text: str) -> tuple[str, bool, str]:
    """The text up to the first scheme, whether user and password may follow, and what comes after them.

    All between the first scheme and the last @ may be user and password: they may hold any character.
    """
    end, at = max((text.rfind(sign), sign) for sign in _ATS)
    if end < 0 or not any(sign in text[:end] for sign in ":/\\"):
        return text, False, ""
    scheme = _SCHEME.search(text, 0, end)
    return text[: scheme.end()] if scheme else "", True, text[end + len(at) :]


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"
