"""Words by their stems, "mills" and "milling" as "mill": Snowball's algorithms, by the language of a topic."""

from __future__ import annotations

from functools import lru_cache

import Stemmer

_NOT_CUT = {"hindi", "nepali", "tamil", "yiddish"}
"""Written with signs that stand apart from letters: `relevance.terms` would cut words at them."""
_OLDER = {"porter", "dutch_porter"}
LANGUAGES = tuple(sorted({*Stemmer.algorithms()} - _NOT_CUT - _OLDER))
"""Those with an algorithm, whose words are told apart."""
_KEPT = 1 << 16


class Stems(dict[str, str]):
    """Stems of words in lower case, of one of `LANGUAGES`; of words met lately, at most 65,536, they are kept."""

    def __init__(self, language: str) -> None:
        super().__init__()
        # It keeps words of its own, more slowly.
        self._of = Stemmer.Stemmer(language, 0)

    def __missing__(self, word: str) -> str:
        if len(self) >= _KEPT:
            self.clear()
        stem: str = self._of.stemWord(word)
        self[word] = stem
        return stem


@lru_cache(maxsize=4)
def stems_of(language: str) -> Stems | None:
    """Those of a language; None for "": words count as they are written."""
    return Stems(language) if language else None
