"""Makes text from outside harmless to look at: control and direction characters become symbols, long text is cut."""

from __future__ import annotations

import re

SHOWN = 2_000
"""Most characters of one text on a page."""
_NAMES = {
    "\N{LEFT-TO-RIGHT MARK}": "LRM",
    "\N{RIGHT-TO-LEFT MARK}": "RLM",
    "\N{ARABIC LETTER MARK}": "ALM",
    "\N{LEFT-TO-RIGHT EMBEDDING}": "LRE",
    "\N{RIGHT-TO-LEFT EMBEDDING}": "RLE",
    "\N{POP DIRECTIONAL FORMATTING}": "PDF",
    "\N{LEFT-TO-RIGHT OVERRIDE}": "LRO",
    "\N{RIGHT-TO-LEFT OVERRIDE}": "RLO",
    "\N{LEFT-TO-RIGHT ISOLATE}": "LRI",
    "\N{RIGHT-TO-LEFT ISOLATE}": "RLI",
    "\N{FIRST STRONG ISOLATE}": "FSI",
    "\N{POP DIRECTIONAL ISOLATE}": "PDI",
    "\N{ZERO WIDTH NO-BREAK SPACE}": "BOM",
    "\N{ZERO WIDTH SPACE}": "ZWSP",
    "\x1b": "ESC",
    "\x7f": "DEL",
}
_HIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def visible(text: str, most: int = SHOWN) -> str:
    """Returns the text with what would hide or reorder it made visible, as in "⟨RLO⟩", and cut after `most`."""
    cut = text if len(text) <= most else f"{text[:most]}…"
    return _HIDDEN.sub(_symbol, _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", cut))


def _symbol(match: re.Match[str]) -> str:
    letter = match[0]
    return f"⟨{_NAMES.get(letter) or f'{ord(letter):02X}'}⟩"
