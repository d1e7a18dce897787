"""Detects markup that overloads parsers, in linear time, and extracts its text without a tree.

By the rules of HTML every tag may cost a walk over all open elements, and every paragraph a copy of all open formatting
elements: a page of 100 KB can take hours or gigabytes. Browsers truncate such pages; so does this module.
"""

from __future__ import annotations

import re
from collections import Counter
from html import unescape

_HARMLESS_TAGS = 1_000
MOST_WORK = 10_000_000
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
_MOST_EXPANDED_BYTES = 1024 * 1024
_ENTITY = re.compile(rb"""<!ENTITY\s+([^\s%"'<>&;]+)\s+(?:"([^"<]*)"|'([^'<]*)')\s*>""")
_REFERENCE = re.compile(rb"&([^\s%\"'<>&;]{1,100});")
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
    return work > MOST_WORK


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
    uses = Counter(_REFERENCE.findall(xml))
    return sum(uses[name] * len(value) for name, value in values.items()) > _MOST_EXPANDED_BYTES


def plain_text(html: bytes) -> str:
    """Returns the text between the tags of `html`, in one linear pass. White space is unchanged."""
    return unescape(_MARKUP.sub(b"", html).decode("utf-8", "replace"))
