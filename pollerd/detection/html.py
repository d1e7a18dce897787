"""The visible text of HTML: one line per block, with white space collapsed.

Removed: scripts, styles, comments, attributes, templates, noscript, frames' fallback text, head metadata but the title,
and elements that say that they are not shown. Shown besides: what stands for an image, the words of buttons, shadow
roots in the markup, which option is chosen, what is struck out, and where frames lead.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from html import unescape
from html.entities import html5

import numpy as np
from selectolax.lexbor import LexborHTMLParser

from pollerd.detection.media import is_utf8
from pollerd.model import FIRST_READER, READER, Detail
from pollerd.texts import _

# The text of plain markup, extracted in one pass, without a tree.
#
# For most pages the tags alone show what a parser would produce: it is enough to remove them. The pattern below matches
# one tag, comment or hidden element at a time, by the rules of the HTML tokenizer (WHATWG HTML, section 13.2.5). Where
# the markup is ambiguous, or a tree would move text elsewhere (such as text between the rows of a table), it matches
# all of the rest, and the page is left to a parser.
#
# All repetitions are possessive: nothing is tried twice, so that time is linear in the size of any page.

_ORDINARY_BLOCKS = rb"""p | div | li | br | h[1-6r] | d(?:[dlt]|i(?:alog|[rv])|etails) | ul | a(?:ddress|rticle|side)
    | b(?:lockquote|ody) | center | f(?:i(?:eldset|gcaption|gure)|o(?:oter|rm)) | h(?:eader|group) | legend
    | m(?:ain|enu) | nav | o(?:l|pt(?:group|ion)) | s(?:e(?:arch|ction)|ummary)"""
BLOCKS = _ORDINARY_BLOCKS + rb"| caption | pre | select | t(?:r|able|body|foot|head|itle)"
"""Names of block elements, for a VERBOSE pattern; factored by first letters, for speed."""
_BLOCK_NAME = re.compile(BLOCKS.decode(), re.VERBOSE)
_COMMON_INLINES = rb"a | span | b | i | em | strong | link | meta | button | small | code | u | label"

# What says that an element is not shown. Where it stands, and for elements that show more than the text between tags
# (`revealed`), nothing below matches.
_NOT_SHOWN = rb"(?i:display)\s*+:\s*+(?i:none)"
_HIDING = rb"""(?: (?i:hidden)(?=[\s/>=]) | (?i:aria-hidden)\s*+=\s*+["']?(?i:true)["']?(?=[\s/>])
    | (?i:style)\s*+=\s*+(?: "[^"<]*?%b[^"<]*" | '[^'<]*?%b[^'<]*' ) )""" % (_NOT_SHOWN, _NOT_SHOWN)
_BLANK = rb"[ \t\n\r\f]"
_NAME_ENDS = rb"(?=[ \t\n\r\f/>])"
_ATTRIBUTES = (
    rb"""(?:
    [ \t\n\r\f/]*+ (?!(?=[hHaAsS])%b) [^ \t\n\r\f"'<>/=]++
    (?: [ \t\n\r\f]*+ = [ \t\n\r\f]*+ (?: "[^"<]*+" | '[^'<]*+' | [^ \t\n\r\f"'<>][^ \t\n\r\f<>]*+ ) )?+
)*+"""
    % _HIDING
)
_REST = _NAME_ENDS + _ATTRIBUTES + rb"[ \t\n\r\f/]*+>"
_REST_OF_OPEN = _NAME_ENDS + _ATTRIBUTES + rb"[ \t\n\r\f]*+>"
_QUICK_REST = rb"""(?: (?:[ ](?!hidden|aria-hidden|style)[a-z-]++="[^"<]*+")*+> | """ + _REST + rb")"

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
_PART_FOLLOWS = rb"(?=%b*+ (?:<%b %b*+)*+ </?%b)" % (_BLANK, _COMMENT, _BLANK, _TABLE_PART)
_CHOSEN = rb"option(?=[ \t\n\r\f])[^<>]*?[ \t\n\r\f](?i:selected)"
_ONLY_OPTIONS = rb"(?=(?: [^<]++ | <(?!%b)/?(?:opt(?:ion|group)|hr)%b )*+ </select%b)" % (_CHOSEN, _REST, _NAME_ENDS)
_ONLY_TEXT_TO = rb"(?=[^<]*+</%b" + _NAME_ENDS + rb")"
_ONE_LINE = rb"(?=(?: [^\n<]++ | <(?!/?pre%b) )*+ </pre%b)" % (_NAME_ENDS, _NAME_ENDS)
# Elements with parsing rules of their own: matched in lower case, individually, or not at all.
_PECULIAR = (
    rb"(?i:%b|(?:s(?:cript|tyle|vg|elect)|no(?:script|embed|frames)|iframe|title|textarea|template|math|frame(?:set)?"
    rb"|xmp|plaintext|listing|pre|img|input|s|del|strike)%b)"
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
        character = html5.get(name[:end])
        if character is not None:
            return (character + name[end:]).encode()
    return reference


def _character(code: int) -> str:
    if code == 0 or code > _LAST_CHARACTER or 0xD800 <= code <= 0xDFFF:
        return "\ufffd"
    # References to control codes mean the characters of windows-1252, where it has them.
    letter = bytes([code]).decode("cp1252", "ignore") if 0x80 <= code <= 0x9F else ""
    return letter or chr(code)


# Parser bombs: markup that overloads parsers is detected in linear time, and its text extracted without a tree.
#
# By the rules of HTML every tag may cost a walk over all open elements, and every paragraph a copy of all open
# formatting elements: a page of 100 KB can take hours or gigabytes. Browsers truncate such pages; so does this module.

_HARMLESS_TAGS = 1_000
MAX_WORK = 10_000_000
"""Most steps over open elements that a parser may need for one page."""
# Cost of an open formatting element, which is copied, relative to others.
_COPIED = 20
_FORMATTING = frozenset(b"a b big code em font i nobr s small strike strong tt u".split())
# Void elements, and those closed by the next of their kind.
_UNCOUNTED = frozenset(
    b"area base br col embed hr img input link meta param source track wbr p li dt dd tr td th thead tbody tfoot "
    b"option optgroup".split()
)
_TAG = re.compile(rb"<(/?)([a-zA-Z][^\s/>]*)")
_MAX_EXPANDED_BYTES = 1024 * 1024
_ENTITY = re.compile(rb"""<!ENTITY\s+([^\s%"'<>&;]+)\s+(?:"([^"<]*)"|'([^'<]*)')\s*>""")
_ENTITY_USE = re.compile(rb"&([^\s%\"'<>&;]{1,100});")
_CHARACTER = re.compile(rb"&#\w{1,8};")
_MARKUP = re.compile(
    rb"<!--.*?(?:-->|\Z)|<(script|style|noscript|template|iframe|noembed|noframes)\b.*?(?:</\1\s*>|\Z)"
    rb"|<[a-zA-Z/!?][^>]*(?:>|\Z)",
    re.IGNORECASE | re.DOTALL,
)


def is_tag_bomb(html: bytes) -> bool:
    """Returns True if a conforming parser could need more than about a second for `html`."""
    if html.count(b"<") <= _HARMLESS_TAGS:
        return False
    open_of: dict[bytes, int] = {}
    depth = work = 0
    for closing, raw_name in _TAG.findall(html):
        name = raw_name.lower()
        if name not in _UNCOUNTED:
            weight = _COPIED if name in _FORMATTING else 1
            opened = open_of.get(name, 0)
            if not closing:
                open_of[name] = opened + 1
                depth += weight
            elif opened:
                # Never below zero: an end tag without its start closes nothing.
                open_of[name] = opened - 1
                depth -= weight
        work += depth
    return work > MAX_WORK


def is_entity_bomb(xml: bytes) -> bool:
    """Returns True if the entities that `xml` declares could expand it greatly, as in a "billion laughs".

    Plain text entities are accepted, up to a mebibyte over all uses; entities within entities are not.
    """
    declared = xml.count(b"<!ENTITY")
    if not declared:
        return False
    values = {name: double or single for name, double, single in _ENTITY.findall(xml)}
    if len(values) != declared or any(b"&" in _CHARACTER.sub(b"", value) or b"%" in value for value in values.values()):
        return True
    uses = Counter(_ENTITY_USE.findall(xml))
    return sum(uses[name] * len(value) for name, value in values.items()) > _MAX_EXPANDED_BYTES


def plain_text(html: bytes) -> str:
    """Returns the text between the tags of `html`, in one linear pass. White space is unchanged."""
    return unescape(_MARKUP.sub(b"", html).decode("utf-8", "replace"))


HIDDEN_ELEMENTS = ["script", "style", "noscript", "iframe", "noembed", "noframes"]
"""Elements whose text no reader sees."""
# The form feed carries the block boundaries through the parser: HTML treats it as white space, so that it may occur
# anywhere (even between table rows, where text would be moved out of the table), and almost no page uses it.
_BOUNDARY = b"\f"
# Lower case only: five times faster than ignoring case.
_BLOCK = re.compile(rb"<(?=/?(?:" + BLOCKS + rb")[\s/>])", re.VERBOSE)
# One search for rare features: capitals in tag names, cells, preformatted text.
_SPECIAL = re.compile(rb"<(?:/?[A-Z]|t[dh][\s>]|pre[\s>])")
_CAPITAL = re.compile(rb"</?[A-Z]")
_TAG_NAME = re.compile(rb"</?[a-zA-Z][a-zA-Z0-9]*")
_CELL = re.compile(rb"<(?=t[dh][\s/>])")
_PREFORMATTED = re.compile(rb"<pre[\s>].*?(?:</pre|\Z)", re.DOTALL)
_NO_BREAK_SPACE = "\xa0".encode()
_INVISIBLE = [sign.encode() for sign in "\xad\u200b\ufeff"]
_SPACE = ord(" ")


def visible_text(html: bytes, reader: int = READER) -> bytes:
    """Returns the visible text of a page as UTF-8: a line per block, no empty lines, no white space at either end.

    `html` is UTF-8; invalid bytes become U+FFFD. Malformed markup is parsed as in browsers, unless that would take too
    long. Raises nothing.
    """
    if reader == FIRST_READER:
        return fold_white_space(text_by_parser(simplified(html)))
    text = text_of_plain(html)
    if text is not None:
        return fold_white_space(text)
    if _SPECIAL.search(html) is not None:
        html = simplified(html)
    shown, nested = without_hidden(html)
    text = _text(shown, hiding=nested)
    # All may be hidden until a script has run.
    return text if b"\n" in text or (shown == html and not nested) else _text(html)


def _text(html: bytes, *, hiding: bool = False) -> bytes:
    html = revealed(html)
    text = None if hiding else text_of_plain(html)
    text = text_by_parser(html, hiding=hiding) if text is None else text
    return fold_white_space(with_marks(text))


# What the text between tags leaves out, written into the page as text, and elements that are not shown.

_CHOSEN_MARK, _STRUCK_MARK = "\ufdd4".encode(), "\ufdd5".encode()
"""In front of the chosen option, and at either end of what is struck out: noncharacters, which no page has."""
_SHOWN_MARKS = ((_CHOSEN_MARK, "✓ ".encode()), (_STRUCK_MARK, b"~~"))
_TAG_REST = rb"(?=[\s/>])((?:[^<>\"']|\"[^\"<]*(?:<[^\"<]*){0,8}\"|'[^'<]*(?:<[^'<]*){0,8}')*+)>"
_TELLING = re.compile(rb"<(/?)(img|input|option|frameset|frame|template|s|del|strike)" + _TAG_REST)
_GIVEN = re.compile(rb"([^\s\"'<>/=]+)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'<>]+)))?")
_BUTTONS = frozenset({b"submit", b"button", b"reset"})
_VALUE = rb"""(?: \s*+ = \s*+ (?: "[^"<]*+" | '[^'<]*+' | [^\s"'<>]++ ) )"""
_HIDDEN_TAG = re.compile(
    rb"<([a-zA-Z][a-zA-Z0-9:-]*+) (?: [\s/]++ (?!%b) [^\s\"'<>/=]++ %b?+ )*+ [\s/]++ %b"
    rb"(?: [^<>\"'] | \"[^\"<]*\" | '[^'<]*' )*+> (?: ([^<]*+)(</\1\s*>) )?" % (_HIDING, _VALUE, _HIDING),
    re.VERBOSE,
)
_WITHOUT_TEXT = frozenset(
    b"area base br col embed hr img input link meta param source track wbr script style noscript template iframe html "
    b"head body path use".split()
)
_HIDDEN_SELECTOR = '[hidden], [aria-hidden="true" i], [style*="display:none" i], [style*="display: none" i]'


def revealed(html: bytes, *, keep: bool = False) -> bytes:
    """Writes what readers see besides the text between tags as text, with marks that `with_marks` makes readable.

    `html` has tag names in lower case. keep: whether tags stay, for selectors; else those that told something go.
    """
    shadows: list[bool] = []

    def tell(match: re.Match[bytes]) -> bytes:
        closing, name, rest = match.groups()
        tag = match[0] if keep else b""
        match name:
            case b"template":
                if closing:
                    return b"</div>" if shadows and shadows.pop() else match[0]
                shadows.append(b"shadowrootmode" in rest.lower())
                return b"<div>" if shadows[-1] else match[0]
            case b"frameset":
                return b"</div>" if closing else b"<div>"
            case b"frame":
                return b"<div>%b</div>" % _attribute(rest, b"src")
            case b"option":
                chosen = not closing and _has(rest, b"selected")
                return (match[0] if keep else b"<option>") + _CHOSEN_MARK if chosen else match[0]
            case b"img":
                return tag + (b"" if _is_hidden(match[0]) else b" %b " % _attribute(rest, b"alt"))
            case b"input":
                return tag + (b"" if _is_hidden(match[0]) else _words_of_button(rest))
            case _:
                kept = match[0] if keep else b"</u>" if closing else b"<u>"
                return _STRUCK_MARK + kept if closing else kept + _STRUCK_MARK

    return _TELLING.sub(tell, html)


def _words_of_button(rest: bytes) -> bytes:
    kind = _attribute(rest, b"type").strip().lower()
    if kind == b"image":
        return b" %b " % _attribute(rest, b"alt")
    return b" %b " % _attribute(rest, b"value") if kind in _BUTTONS else b""


def _attribute(rest: bytes, name: bytes) -> bytes:
    """Returns the value of an attribute as text of a page."""
    for attribute in _GIVEN.finditer(rest):
        if attribute[1].lower() == name:
            return (attribute[2] or attribute[3] or attribute[4] or b"").replace(b"<", b"&lt;").replace(b">", b"&gt;")
    return b""


def _has(rest: bytes, name: bytes) -> bool:
    return any(attribute[1].lower() == name for attribute in _GIVEN.finditer(rest))


def _is_hidden(tag: bytes) -> bool:
    return b"hidden" in tag and _HIDDEN_TAG.match(tag) is not None


def with_marks(text: bytes, *, shown: bool = True) -> bytes:
    """Makes the marks of `revealed` readable, or removes them."""
    if text.isascii():
        return text
    for mark, sign in _SHOWN_MARKS:
        text = text.replace(mark, sign if shown else b"")
    return text


def without_hidden(html: bytes) -> tuple[bytes, bool]:
    """Removes hidden elements that hold nothing but text; returns also whether others are left, for a parser.

    Those that have no text anyway lose their attributes.
    """
    nested = False
    if not any(word in html for word in (b"hidden", b"HIDDEN", b"display", b"DISPLAY")):
        return html, nested

    def drop(match: re.Match[bytes]) -> bytes:
        nonlocal nested
        name, bare = match[1].lower(), b"<%b>" % match[1] + (match[2] or b"") + (match[3] or b"")
        if name in _WITHOUT_TEXT:
            return match[0] if name == b"input" else bare
        if match[3] is not None:
            return b"<br>" if is_block(name.decode()) else b""
        if name == b"svg" and not nested:
            end = html.find(b"</svg", match.end())
            if end >= 0 and b"<t" not in html[match.end() : end]:
                return bare
        nested = True
        return match[0]

    return _HIDDEN_TAG.sub(drop, html), nested


_TITLE = re.compile(rb"<title[^>]*>([^<]*)</title", re.IGNORECASE)
_REFRESH = re.compile(rb"<meta[^>]{0,200}?url\s*=\s*[\"']?\s*([^\"'\s>]{1,200})", re.IGNORECASE)
_FRAMES = re.compile(rb"<frame\s[^>]{0,500}?src\s*=\s*[\"']?([^\"'\s>]{1,200})", re.IGNORECASE)
_FRAMES_NAMED = 5


def why_no_text(html: bytes, text: bytes) -> str:
    """Returns why a page has no text that could be compared, in one line; empty: it has. text: its visible text."""
    frames = _FRAMES.findall(html) if len(text) <= _FRAMES_NAMED * 200 and b"<frameset" in html.lower() else []
    if frames:
        named = ", ".join(_plain(frame) for frame in frames[:_FRAMES_NAMED])
        return _(Detail.NO_TEXT_BUT_FRAMES, named=named)
    if b"\n" in text:
        return ""
    title = _TITLE.search(html)
    if text and (title is None or text != fold_white_space(unescape(_plain(title[1])).encode())):
        return ""
    refresh = _REFRESH.search(html) if b"refresh" in html.lower() else None
    if refresh is not None:
        return _(Detail.NO_TEXT_BUT_ANOTHER_PAGE, plain=_plain(refresh[1]))
    if b"<script" in html.lower():
        return _(Detail.NO_TEXT_WITHOUT_SCRIPTS)
    return _(Detail.NO_TEXT)


def _plain(raw: bytes) -> str:
    return "".join(sign if sign.isprintable() else " " for sign in raw.decode("utf-8", "replace"))


def remove_hidden(tree: LexborHTMLParser) -> None:
    """Removes the elements of a page that say that they are not shown."""
    for node in tree.css(_HIDDEN_SELECTOR):
        if node.tag not in ("html", "body"):
            node.decompose()


def simplified(html: bytes) -> bytes:
    """Converts tag names to lower case, adds a space before each cell, and marks line breaks of preformatted text."""
    if _CAPITAL.search(html):
        html = _TAG_NAME.sub(_lower, html)
    return _PREFORMATTED.sub(_keep_lines, _CELL.sub(b" <", html))


def text_by_parser(html: bytes, *, hiding: bool = False) -> bytes:
    """Returns what `text_of_plain` does, for any simplified page. hiding: without elements that are not shown."""
    marked = mark_blocks(html)
    text = plain_text(marked) if is_tag_bomb(marked) else _tree_text(marked, hiding=hiding)
    return text.encode("utf-8", "replace")


def mark_blocks(html: bytes) -> bytes:
    r"""Marks the begin and end of each block by `\f`, which the text of a tree then has where a line ends."""
    return _BLOCK.sub(b"\f<", html)


def _tree_text(html: bytes, *, hiding: bool) -> str:
    tree = LexborHTMLParser(html, scripting=True)
    if hiding:
        remove_hidden(tree)
    tree.strip_tags(HIDDEN_ELEMENTS, recursive=True)
    return root.text_lexbor() if (root := tree.root) is not None else ""


def _lower(match: re.Match[bytes]) -> bytes:
    return match[0].lower()


def _keep_lines(match: re.Match[bytes]) -> bytes:
    return match[0].replace(b"\n", b"\f")


def fold_white_space(text: bytes) -> bytes:
    """Folds white space to single spaces and lines, and removes invisible characters."""
    for space in (b"\n", b"\t", b"\r"):
        text = text.replace(space, b" ")
    if not text.isascii():
        text = text.replace(_NO_BREAK_SPACE, b" ")
        for sign in _INVISIBLE:
            text = text.replace(sign, b"")
    lines = [line.strip(b" ") for line in _single_spaced(text).split(_BOUNDARY)]
    return b"\n".join(filter(None, lines))


def _single_spaced(text: bytes) -> bytes:
    signs = np.frombuffer(text, np.uint8)
    spaces = signs == _SPACE
    again = spaces[1:] & spaces[:-1]
    return signs[np.append(True, ~again)].tobytes() if again.any() else text
