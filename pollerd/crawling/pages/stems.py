"""Words by their stems, "mills" and "milling" as "mill": Snowball's algorithms, by the language of a topic."""

from __future__ import annotations

from functools import lru_cache

import Stemmer

from pollerd.crawling.pages.memo import BoundedMemo

_NOT_CUT = {"hindi", "nepali", "tamil", "yiddish"}
"""Written with signs that stand apart from letters: `relevance.terms` would cut words at them."""
_OLDER = {"porter", "dutch_porter"}
LANGUAGES = tuple(sorted({*Stemmer.algorithms()} - _NOT_CUT - _OLDER))
"""Those with an algorithm, whose words are told apart."""


@lru_cache(maxsize=4)
def stems_of(language: str) -> BoundedMemo[str] | None:
    """Stems of words in lower case, by word, of one of `LANGUAGES`; None for "": words count as they are written."""
    # The stemmer would keep words of its own, more slowly.
    return BoundedMemo(Stemmer.Stemmer(language, 0).stemWord) if language else None
