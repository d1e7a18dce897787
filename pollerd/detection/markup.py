"""The text of plain markup in one pass, without a tree.

Most pages are written so that what a parser would make of them shows in their tags alone: all that is left to do is to
leave these out. The pattern below takes one tag, comment or hidden element at a time, by the rules of the HTML
tokenizer (WHATWG HTML, section 13.2.5). Where something could be read otherwise, or a tree would move text elsewhere
(that between the rows of a table), it takes all of the rest, and the page is left to a parser.

Every part is possessive: nothing is tried twice, so that time is linear in the size of the page, whatever it holds.
"""

from __future__ import annotations

import re
from functools import lru_cache
from html.entities import html5

from pollerd.detection.charset import is_utf8

_ORDINARY_BLOCKS = rb"""p | div | li | br | h[1-6r] | d(?:[dlt]|i(?:alog|[rv])|etails) | ul | a(?:ddress|rticle|side)
    | b(?:lockquote|ody) | center | f(?:i(?:eldset|gcaption|gure)|o(?:oter|rm)) | h(?:eader|group) | legend
    | m(?:ain|enu) | nav | o(?:l|pt(?:group|ion)) | s(?:e(?:arch|ction)|ummary)"""
BLOCKS = _ORDINARY_BLOCKS + rb"| caption | pre | select | t(?:r|able|body|foot|head|itle)"
"""Names of elements that stand on lines of their own, for a VERBOSE pattern; factored by first letters, for speed."""
_COMMON_INLINES = rb"a | span | b | i | em | strong | img | link | meta | button | small | code | u | label"

_SPACE = rb"[ \t\n\r\f]"
_NAME_ENDS = rb"(?=[ \t\n\r\f/>])"
_ATTRIBUTES = rb"""(?:
    [ \t\n\r\f/]*+ [^ \t\n\r\f"'<>/=]++
    (?: [ \t\n\r\f]*+ = [ \t\n\r\f]*+ (?: "[^"<]*+" | '[^'<]*+' | [^ \t\n\r\f"'<>][^ \t\n\r\f<>]*+ ) )?+
)*+"""
_REST = _NAME_ENDS + _ATTRIBUTES + rb"[ \t\n\r\f/]*+>"
_REST_OF_OPEN = _NAME_ENDS + _ATTRIBUTES + rb"[ \t\n\r\f]*+>"
_QUICK_REST = rb"""(?: (?:[ ][a-z-]++="[^"<]*+")*+> | """ + _REST + rb")"

# In `html` "<pre" counts wherever it stands: nothing that is no tag may hold it here.
_PRE = rb"pre[\s>]"
_COMMENT = rb"!--(?!-?>)(?: [^-<]++ | -(?!-!?>) | <(?!" + _PRE + rb") )*+--!?>"
# A script in a comment in a script would end elsewhere.
_SCRIPT = rb"script" + _REST + rb"(?:[^<]++|<(?!/?(?i:script)|" + _PRE + rb"))*+ </(?i:script)" + _REST
_HIDDEN = (b"style", b"noscript", b"iframe", b"noembed", b"noframes")


def _hidden(name: bytes) -> bytes:
    """An element with its content, which is no markup: up to its end tag, in upper or lower case."""
    return name + _REST + rb"(?:[^<]++|<(?!/(?i:%b)%b|%b))*+ </(?i:%b)" % (name, _NAME_ENDS, _PRE, name) + _REST


_TABLE_PART = rb"(?: t(?:able|body|head|foot|[rdh]) | c(?:aption|ol|olgroup) )" + _NAME_ENDS
_PART_FOLLOWS = rb"(?=%b*+ (?:<%b %b*+)*+ </?%b)" % (_SPACE, _COMMENT, _SPACE, _TABLE_PART)
_ONLY_OPTIONS = rb"(?=(?: [^<]++ | </?(?:opt(?:ion|group)|hr)%b )*+ </select%b)" % (_REST, _NAME_ENDS)
_ONLY_TEXT_TO = rb"(?=[^<]*+</%b" + _NAME_ENDS + rb")"
_ONE_LINE = rb"(?=(?: [^\n<]++ | <(?!/?pre%b) )*+ </pre%b)" % (_NAME_ENDS, _NAME_ENDS)
# What a parser reads by rules of its own: taken in lower case, one by one, or not at all.
_PECULIAR = (
    rb"(?i:%b|(?:s(?:cript|tyle|vg|elect)|no(?:script|embed|frames)|iframe|title|textarea|template|math|frame(?:set)?"
    rb"|xmp|plaintext|listing|pre)%b)"
) % (_TABLE_PART, _NAME_ENDS)
# A drawing is read as XML is, up to where it leads back into HTML.
_ONLY_DRAWING = rb"""(?=(?:
    [^<]++ | <%b | <style%b[^<]*+</style> | <title%b[^<]*+</title>
    | </?(?!%b|(?i:foreignobject|desc|annotation-xml)%b)[a-z][a-zA-Z0-9:_-]*+%b
)*+ </svg%b)""" % (_COMMENT, _REST_OF_OPEN, _REST_OF_OPEN, _PECULIAR, _NAME_ENDS, _REST, _NAME_ENDS)

_LINE_ENDING = [
    rb"/?(?:" + _ORDINARY_BLOCKS + rb")" + _QUICK_REST,
    rb"(?: table | /?t(?:body|head|foot|r) | /caption )" + _REST + _PART_FOLLOWS,
    rb"(?: caption | /(?:table|title|select|pre) )" + _REST,
    rb"title" + _REST + _ONLY_TEXT_TO % b"title",
    rb"select" + _REST + _ONLY_OPTIONS,
    rb"pre" + _REST + _ONE_LINE,
]
_TOKENS = [
    rb"/?(?:" + _COMMON_INLINES + rb")" + _QUICK_REST,
    rb"(?<=(<)) (?:" + rb"|".join(_LINE_ENDING) + rb")",
    rb"(?!/?" + _PECULIAR + rb")/?[a-z][a-zA-Z0-9:_-]*+" + _REST,
    rb"(?<=[ \t\n\r\f]<) t[dh]" + _REST,  # else a space is to be added
    rb"(?: /?col(?:group)? | /t[dh] )" + _REST + _PART_FOLLOWS,
    _COMMENT,
    _SCRIPT,
    *map(_hidden, _HIDDEN),
    rb"svg" + _REST_OF_OPEN + _ONLY_DRAWING,
    rb"textarea" + _REST + rb"(?![\r\n])" + _ONLY_TEXT_TO % b"textarea",
    rb"/(?:script|style|no(?:script|embed|frames)|iframe|svg|textarea)" + _REST,
    rb"(?: (?i:!doctype) | \? ) [^<>]*+>",
    rb".*+",
]
_TOKEN = re.compile(rb"<(?:" + rb"|".join(_TOKENS) + rb")", re.VERBOSE | re.DOTALL)
_END = b"\0"
_REFERENCE = re.compile(rb"&(?:#[0-9]++;?|#[xX][0-9a-fA-F]++;?|[a-zA-Z][a-zA-Z0-9]{1,31};?)")
_LAST_CHARACTER = 0x10FFFF


def text_of_plain(html: bytes) -> bytes | None:
    r"""The text of a page with `\f` for each line that a block begins or ends; None where it takes a parser to tell.

    `html` is as `html.visible_text` prepares it; the text is that of the tree, as UTF-8, white space unfolded.
    """
    if _END in html:
        return None
    # Text and "<", or None for a tag within a line, by turns. What takes the rest takes the end, too.
    text = b"".join(filter(None, _TOKEN.split(html + _END)))
    if not text.endswith(_END):
        return None
    text = text[:-1].replace(b"<", b"\f")
    if not is_utf8(text):
        return None
    return _REFERENCE.sub(_referred, text) if b"&" in text else text


def _referred(reference: re.Match[bytes]) -> bytes:
    return _meaning(reference[0])


@lru_cache(maxsize=4096)
def _meaning(reference: bytes) -> bytes:
    """What a reference in text stands for (WHATWG HTML, section 13.2.5.72): itself, where it names nothing."""
    name = reference[1:].decode()
    if name.startswith("#"):
        digits = name[1:].rstrip(";")
        return _character(int(digits[1:], 16) if digits[0] in "xX" else int(digits)).encode()
    for end in range(len(name), 1, -1):
        found = html5.get(name[:end])
        if found is not None:
            return (found + name[end:]).encode()
    return reference


def _character(code: int) -> str:
    if code == 0 or code > _LAST_CHARACTER or 0xD800 <= code <= 0xDFFF:
        return "\ufffd"
    # Those of windows-1252, where it has one, stand for what Latin-1 has no letters for.
    letter = bytes([code]).decode("cp1252", "ignore") if 0x80 <= code <= 0x9F else ""
    return letter or chr(code)
