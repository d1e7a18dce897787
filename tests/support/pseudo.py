"""A language that no one speaks: shows which texts do not go through the catalogue, and how layouts hold longer words.

Each letter has an accent, a text is 40 % longer and stands in ⟦ ⟧; values, markup and names in it stay as they are.
Only the texts of `pollerd/locale/pollerd.pot` are translated: one that is not there would stay in English for good.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from babel.messages.pofile import read_po

from pollerd import texts
from pollerd.texts import TextLanguage


@cache
def catalogue() -> frozenset[str]:
    """The texts that a translation has, also those for one and for many."""
    return catalogue_of(Path(texts.__file__).parent / "locale/pollerd.pot")


def catalogue_of(path: Path) -> frozenset[str]:
    """The English texts of a translation."""
    with path.open("rb") as file:
        messages = [message.id for message in read_po(file) if message.id]
    return frozenset(text for one in messages for text in ((one,) if isinstance(one, str) else one))


_ACCENTED = str.maketrans("aceghijklnorstuwyzACEGHIJKLNORSTUWYZ", "áćéǵĥíĵḱĺńóŕśţúẃýźÁĆÉǴĤÍĴḰĹŃÓŔŚŢÚẂÝŹ")
_KEPT = re.compile(r"(\{\{|\}\}|\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}|%\(\w+\)s|%%|%[A-Za-z]|<[^<>]*>|&\w+;|`[^`]*`|⟦.*⟧)")
_MORE = 0.4


class PseudoLanguage(TextLanguage):
    """Translates every text."""

    code = "en_XA"

    def gettext(self, message: str) -> str:
        """Returns the text in this language."""
        return f"⟦{_in_pseudo(message)}⟧" if message in catalogue() else message

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        """Returns the text for a number in this language, which has the plurals of English."""
        return self.gettext(msgid1 if n == 1 else msgid2)


def _in_pseudo(message: str) -> str:
    parts = _KEPT.split(message)
    written = "".join(part if at % 2 else part.translate(_ACCENTED) for at, part in enumerate(parts))
    letters = sum(len(part) for part in parts[::2])
    padding = "ṽ" * max(round(_MORE * letters) - 1, 0)
    words = " ".join(padding[at : at + 6] for at in range(0, len(padding), 6))
    return f"{written} {words}" if words else written


_WORD = re.compile(r"[A-Za-z][A-Za-z'’]+")
_BARE = frozenset("bdfmpqvxBDFMPQVX'’")


def untranslated(text: str, known: Iterable[str] = ()) -> list[str]:
    """Returns the words of a text that are of no language but English. known: texts in it that no one translates."""
    for part in sorted(known, key=len, reverse=True):
        text = text.replace(part, " ")
    words = _WORD.findall(
        re.sub(r"`[^`]*`|https?://\S*|\w*[^\W\x00-\x7f]\w*|-{1,2}[a-z][a-z-]*|[A-Z_]{3,}\b", " ", text)
    )
    return [word for word in words if not _BARE.issuperset(word)]
