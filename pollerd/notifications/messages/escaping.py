"""Makes data inert in each medium: it is shown, never obeyed.

HTML is escaped. Chat services share no way to escape: a backslash is shown by Slack, an entity by Discord and
Telegram. So in Markdown each character that some service acts on becomes one that looks like it, and what is recognised
by its shape (mentions, links, emoji names, commands) is parted by a space of no width. The result contains none of the
signs of Markdown, so it is the same in all of them, and escaping it again changes nothing.
"""

from __future__ import annotations

import html
import re
from enum import StrEnum
from urllib.parse import quote, urlsplit

GAP = "\u200b"
"""A space of no width."""
_LOOK_ALIKES = str.maketrans(
    {
        "*": "\N{ASTERISK OPERATOR}",
        "_": "\N{MODIFIER LETTER LOW MACRON}",
        "`": "\N{MODIFIER LETTER GRAVE ACCENT}",
        "~": "\N{TILDE OPERATOR}",
        "|": "\N{DIVIDES}",
        "<": "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}",
        ">": "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}",
        "[": "\N{FULLWIDTH LEFT SQUARE BRACKET}",
        "]": "\N{FULLWIDTH RIGHT SQUARE BRACKET}",
        "\\": "\N{FULLWIDTH REVERSE SOLIDUS}",
    }
)
_SHAPES = re.compile(
    r"""
    [@\#](?!\u200b)                     # mentions, tags, numbers of issues, headings
    | :(?=//|[\w+-]+:)                  # https://, :emoji:
    | (?<=\w)\.(?=[^\W\d_])             # names of hosts
    | &(?=\#?\w+;)                      # entities
    | (?<!\S)/(?=\w)                    # commands
    """,
    re.VERBOSE,
)
_AT_START = re.compile(r"[-+=:>\s]|\d+[.)](?:\s|\Z)")
_SAFE_IN_URLS = "/?#:@!&'()+,;=%-.[]"
_IN_MARKDOWN = str.maketrans({sign: f"%{ord(sign):02X}" for sign in "_~@*'()!"})


class Medium(StrEnum):
    """What a text is written for."""

    TEXT = "text"
    HTML = "html"
    MARKDOWN = "markdown"


def escaped(text: str, medium: Medium) -> str:
    """Returns a plain line (see `plain`) so that the medium shows it and does nothing else."""
    if medium is Medium.HTML:
        return html.escape(text)
    return inert_in_chats(text) if medium is Medium.MARKDOWN else text


def inert_in_chats(text: str) -> str:
    """Returns a line that Markdown of GitHub, Slack, Discord and Telegram shows as text."""
    parted = _SHAPES.sub(_with_gap, text.translate(_LOOK_ALIKES))
    return GAP + parted if _AT_START.match(parted) else parted


def _with_gap(match: re.Match[str]) -> str:
    return match[0] + GAP


def web_url(url: str) -> str:
    """Returns a URL of http or https in ASCII without signs of HTML or Markdown; empty if it is none."""
    try:
        parts = urlsplit(url.strip())
        # A name in other letters stays as it is: to be clicked it is written for people.
        host = parts.netloc
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or not host or not url.isprintable() or any(map(str.isspace, url.strip())):
        return ""
    return quote(url.strip(), safe=_SAFE_IN_URLS + "~") if url.isascii() else _quoted(url.strip(), host)


def _quoted(url: str, host: str) -> str:
    before, after = url.split(host, 1)
    return before + host + quote(after, safe=_SAFE_IN_URLS + "~")


def link(url: str, medium: Medium) -> str:
    """Returns a URL as the medium shows it: as a link if it is one of http or https, else as text."""
    target = web_url(url)
    if not target:
        return escaped(url, medium)
    if medium is Medium.HTML:
        safe = html.escape(target)
        return f'<a href="{safe}" rel="noopener noreferrer">{safe}</a>'
    return f"<{target.translate(_IN_MARKDOWN)}>" if medium is Medium.MARKDOWN else target
