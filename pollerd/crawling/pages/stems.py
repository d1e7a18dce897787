"""Reduces words to stems, "mills" and "milling" to "mill": Snowball's algorithms, by the language of a topic."""

from __future__ import annotations

from functools import lru_cache

import Stemmer

from pollerd.crawling.pages.memo import BoundedMemo

_NOT_CUT = {"hindi", "nepali", "tamil", "yiddish"}
"""Languages whose signs are not all letters: `relevance.terms` would split words at them."""
_OLDER = {"porter", "dutch_porter"}
LANGUAGES = tuple(sorted({*Stemmer.algorithms()} - _NOT_CUT - _OLDER))
"""Languages with an algorithm whose words `relevance.terms` recognises."""


@lru_cache(maxsize=4)
def stems_of(language: str) -> BoundedMemo[str] | None:
    """Returns a cache of stems of lower-case words for one of `LANGUAGES`; None for "": words are not stemmed."""
    # 0 disables the stemmer's own cache, which is slower.
    return BoundedMemo(Stemmer.Stemmer(language, 0).stemWord) if language else None
