"""Extracts the text of plain markup in one pass, without a tree.

For most pages the tags alone show what a parser would produce: it is enough to remove them. The pattern below matches
one tag, comment or hidden element at a time, by the rules of the HTML tokenizer (WHATWG HTML, section 13.2.5). Where
the markup is ambiguous, or a tree would move text elsewhere (such as text between the rows of a table), it matches all
of the rest, and the page is left to a parser.

All repetitions are possessive: nothing is tried twice, so that time is linear in the size of any page.
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
"""Names of block elements, for a VERBOSE pattern; factored by first letters, for speed."""
_BLOCK_NAME = re.compile(BLOCKS.decode(), re.VERBOSE)
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

# `html` counts "<pre" anywhere: no other token may contain it here.
_PRE = rb"pre[\s>]"
_COMMENT = rb"!--(?!-?>)(?: [^-<]++ | -(?!-!?>) | <(?!" + _PRE + rb") )*+--!?>"
# A script in a comment in a script would end elsewhere.
_SCRIPT = rb"script" + _REST + rb"(?:[^<]++|<(?!/?(?i:script)|" + _PRE + rb"))*+ </(?i:script)" + _REST
_HIDDEN = (b"style", b"noscript", b"iframe", b"noembed", b"noframes")


def _hidden(name: bytes) -> bytes:
    """Returns a pattern for an element with its raw content, up to its end tag, in upper or lower case."""
    return name + _REST + rb"(?:[^<]++|<(?!/(?i:%b)%b|%b))*+ </(?i:%b)" % (name, _NAME_ENDS, _PRE, name) + _REST


_TABLE_PART = rb"(?: t(?:able|body|head|foot|[rdh]) | c(?:aption|ol|olgroup) )" + _NAME_ENDS
_PART_FOLLOWS = rb"(?=%b*+ (?:<%b %b*+)*+ </?%b)" % (_SPACE, _COMMENT, _SPACE, _TABLE_PART)
_ONLY_OPTIONS = rb"(?=(?: [^<]++ | </?(?:opt(?:ion|group)|hr)%b )*+ </select%b)" % (_REST, _NAME_ENDS)
_ONLY_TEXT_TO = rb"(?=[^<]*+</%b" + _NAME_ENDS + rb")"
_ONE_LINE = rb"(?=(?: [^\n<]++ | <(?!/?pre%b) )*+ </pre%b)" % (_NAME_ENDS, _NAME_ENDS)
# Elements with parsing rules of their own: matched in lower case, individually, or not at all.
_PECULIAR = (
    rb"(?i:%b|(?:s(?:cript|tyle|vg|elect)|no(?:script|embed|frames)|iframe|title|textarea|template|math|frame(?:set)?"
    rb"|xmp|plaintext|listing|pre)%b)"
) % (_TABLE_PART, _NAME_ENDS)
# SVG is parsed like XML, up to elements that switch back to HTML.
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
    rb"(?<=[ \t\n\r\f]<) t[dh]" + _REST,  # else a space must be added
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


def is_block(name: str) -> bool:
    """Returns whether an element of this name, in lower case, begins and ends lines."""
    return _BLOCK_NAME.fullmatch(name) is not None


def text_of_plain(html: bytes) -> bytes | None:
    r"""Returns the text of a page with `\f` for each line that a block begins or ends; None if a parser is needed.

    `html` is as `html.visible_text` prepares it; the text is that of the tree, as UTF-8, white space not collapsed.
    """
    if _END in html:
        return None
    # Alternates between text and "<", or None for an inline tag. A match of the rest includes the end mark.
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
    """Resolves a character reference in text (WHATWG HTML, section 13.2.5.72); an unknown one is returned as it is."""
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
    # References to control codes mean the characters of windows-1252, where it has them.
    letter = bytes([code]).decode("cp1252", "ignore") if 0x80 <= code <= 0x9F else ""
    return letter or chr(code)
