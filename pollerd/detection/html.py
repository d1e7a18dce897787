"""Extracts the visible text of HTML: one line per block, whitespace collapsed.

Removed: scripts, styles, comments, attributes, templates, noscript, frames' fallback text, head metadata but the title.
Hidden inputs disappear with the attributes: they have no text.
"""

from __future__ import annotations

import re

import numpy as np
from selectolax.lexbor import LexborHTMLParser

from pollerd.detection.markup import BLOCKS, text_of_plain
from pollerd.detection.parser_bombs import is_tag_bomb, plain_text

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


def visible_text(html: bytes) -> bytes:
    """Returns the visible text of a page as UTF-8: a line per block, no empty lines, no white space at either end.

    `html` is UTF-8; invalid bytes become U+FFFD. Malformed markup is parsed as in browsers, unless that would take too
    long. Raises nothing.
    """
    text = text_of_plain(html)
    if text is None and _SPECIAL.search(html) is not None:
        html = simplified(html)
        text = text_of_plain(html)
    return fold_white_space(text_by_parser(html) if text is None else text)


def simplified(html: bytes) -> bytes:
    """Converts tag names to lower case, adds a space before each cell, and marks line breaks of preformatted text."""
    if _CAPITAL.search(html):
        html = _TAG_NAME.sub(_lower, html)
    return _PREFORMATTED.sub(_keep_lines, _CELL.sub(b" <", html))


def text_by_parser(html: bytes) -> bytes:
    """Returns what `text_of_plain` does, for any simplified page."""
    marked = mark_blocks(html)
    text = plain_text(marked) if is_tag_bomb(marked) else _tree_text(marked)
    return text.encode("utf-8", "replace")


def mark_blocks(html: bytes) -> bytes:
    r"""Marks the begin and end of each block by `\f`, which the text of a tree then has where a line ends."""
    return _BLOCK.sub(b"\f<", html)


def _tree_text(html: bytes) -> str:
    tree = LexborHTMLParser(html, scripting=True)
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
