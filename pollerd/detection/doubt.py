"""Doubt whether an answer is the page at all: a challenge, a page about maintenance, an error with status 200, nothing.

Such answers come and go. One is a change only if it persists; until then the poll failed.
"""

from __future__ import annotations

import re

from pollerd.detection.media import parsed
from pollerd.model import Media
from pollerd.texts import _

_NAMES = {
    Media.HTML: "a page",
    Media.JSON: "JSON",
    Media.FEED: "a feed",
    Media.TEXT: "text",
    Media.BINARY: "bytes",
}
_FEWEST_LINES, _FEWEST_OF_ANY = 3, 4
"""Lines that a page has to have had, for another text without any of them to be doubtful: one that reads as below, or
any that is at most half as long."""
_LONGEST = 8_192
"""Bytes of text beyond which a page is no notice."""
_NOTICE = re.compile(
    r"just a moment|one moment,? please|please wait|checking (?:your|if|the)|verif(?:y|ying) (?:that )?you(?:'re| are)|"
    r"human verification|bot verification|not a (?:ro)?bot|(?:re)?captcha|security check|unusual traffic|"
    r"enable (?:javascript|cookies|js)|attention required|pardon our interruption|ddos[- ]protection|incapsula|"
    r"access (?:to this page )?(?:has been |is )?denied|request (?:rejected|blocked|unsuccessful)|"
    r"(?:url was|been) rejected|forbidden|maintenance|wartung|mantenimiento|manutenzione|manuten[cç]|onderhoud|"
    r"konserwac|техническ|обслуживани|メンテナンス|维护|維護|점검|back (?:soon|shortly|later)|be right back|"
    r"(?:temporarily|currently) (?:unavailable|down|offline)|(?:service|site|page) (?:is )?unavailable|"
    r"bad gateway|gateway time-?out|internal server error|too many requests|rate limit|database connection|"
    r"an? (?:unexpected )?error (?:has )?occur|try again later|over capacity|being restarted|\b50[0-4]\b",
    re.IGNORECASE,
)
_OF_ERRORS = frozenset(
    [
        "error",
        "errors",
        "message",
        "msg",
        "detail",
        "details",
        "code",
        "status",
        "statuscode",
        "error_code",
        "error_description",
        "title",
        "type",
        "success",
        "reason",
        "trace_id",
        "request_id",
        "requestid",
        "timestamp",
        "path",
        "instance",
    ]
)


def doubt_of(before: bytes | None, media_before: Media | None, after: bytes, media: Media, *, whole: bool) -> str:
    """Returns why an answer that differs is hardly the page, in one line; empty: it may be.

    before: the content of the poll before, None if it is not at hand. whole: whether the contents are of whole pages,
    not of what a selection keeps.
    """
    if media_before is not None and media is not media_before:
        if not after:
            return _("it answered with nothing")
        return _("it answered with {media} instead of {before}", media=_NAMES[media], before=_NAMES[media_before])
    if not whole or before is None:
        return ""
    if not after:
        return _("it answered with nothing") if before else ""
    match media:
        case Media.FEED:
            return _("its feed has no entries") if _entries(before) and not _entries(after) else ""
        case Media.JSON:
            return _doubt_of_json(before, after)
        case Media.HTML | Media.TEXT:
            return _doubt_of_text(before, after)
        case _:
            return ""


def _entries(content: bytes) -> bool:
    return any(line and not line.startswith(b"\t") for line in content.split(b"\n"))


def _doubt_of_json(before: bytes, after: bytes) -> str:
    if len(after) > _LONGEST:
        return ""
    old, new = parsed(before), parsed(after)
    if not isinstance(new, dict) or not new or not {str(key).lower() for key in new} <= _OF_ERRORS:
        return ""
    known = old.keys() if isinstance(old, dict) else ()
    return "" if any(key in known for key in new) else _("it answered with an error instead of its data")


def _doubt_of_text(before: bytes, after: bytes) -> str:
    if len(after) > _LONGEST:
        return ""
    old, (title, *new) = set(before.split(b"\n")), after.split(b"\n")
    if len(old) < _FEWEST_LINES or any(line in old for line in new):
        return ""
    text = after.decode("utf-8", "replace")
    notice = _NOTICE.search(text)
    if notice is not None and (new or title not in old):
        return _("it answered with a notice instead of the page ({line})", line=_line(text, notice.start()))
    if title in old or len(old) < _FEWEST_OF_ANY or 2 * (len(new) + 1) > len(old):
        return ""
    return _("it answered with another page ({line})", line=_line(text, 0))


def _line(text: str, at: int) -> str:
    start = text.rfind("\n", 0, at) + 1
    line = text[start:].split("\n", 1)[0][:80]
    return "".join(sign if sign.isprintable() else " " for sign in line)
