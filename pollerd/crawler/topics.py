"""Topics with the limits of their crawls, and the relevance of texts to them."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import TypeVar

import numpy as np
import Stemmer
import xxhash
from numpy.typing import NDArray

from pollerd.errors import InvalidValueError
from pollerd.texts import _
from pollerd.urls import host_of

V = TypeVar("V")
MOST = 1 << 16


class BoundedMemo(dict[str, V]):
    """Caches `work(word)` by word, at most 65,536 words. A look-up costs a quarter of that of `lru_cache`."""

    def __init__(self, work: Callable[[str], V]) -> None:
        super().__init__()
        self._work = work

    def __missing__(self, word: str) -> V:
        if len(self) >= MOST:
            self.clear()
        value = self[word] = self._work(word)
        return value


# Stems of words, "mill" of "mills" and "milling": Snowball's algorithms, by the language of a topic.

_NOT_CUT = {"hindi", "nepali", "tamil", "yiddish"}
"""Languages whose signs are not all letters: `terms` would split words at them."""
_OLDER = {"porter", "dutch_porter"}
LANGUAGES = tuple(sorted({*Stemmer.algorithms()} - _NOT_CUT - _OLDER))
"""Languages with an algorithm whose words `terms` recognises."""


@lru_cache(maxsize=4)
def stems_of(language: str) -> BoundedMemo[str] | None:
    """Returns a cache of stems of lower-case words for one of `LANGUAGES`; None for "": words are not stemmed."""
    # 0 disables the stemmer's own cache, which is slower.
    return BoundedMemo(Stemmer.Stemmer(language, 0).stemWord) if language else None


KEEP_SHARE = 0.75
"""Share of the minimum relevance below which a collected page is dropped: scores fluctuate."""


@dataclass(frozen=True)
class TopicSettings:
    """A topic and its limits.

    name: of the collection. examples, keywords: texts and words on the topic, at least one of either. background: texts
    on other subjects, to recognise common words. language: one of `LANGUAGES`, to reduce words to their stems;
    "": words as they are. allow_domains: only these and their subdomains (all if empty), deny_domains: never these.
    max_depth: maximum number of links from the nearest seed, >= 0. pages_per_host: maximum number of pages of one host
    that are requested, >= 1. collection_size: maximum number of pages kept, >= 1. relevance_min, above 0, at most 1:
    minimum relevance of collected pages.
    """

    name: str
    examples: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    background: tuple[str, ...] = ()
    language: str = ""
    allow_domains: tuple[str, ...] = ()
    deny_domains: tuple[str, ...] = ()
    max_depth: int = 10
    pages_per_host: int = 1_000
    collection_size: int = 10_000
    relevance_min: float = 0.1

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise InvalidValueError("name", _("a name"), self.name)
        if not any(text.strip() for text in (*self.examples, *self.keywords)):
            raise InvalidValueError("keywords", _("some words, or examples some texts"), self.keywords)
        if self.language and self.language not in LANGUAGES:
            raise InvalidValueError("language", _("one of {languages}", languages=", ".join(LANGUAGES)), self.language)
        for name, least in (("max_depth", 0), ("pages_per_host", 1), ("collection_size", 1)):
            if getattr(self, name) < least:
                raise InvalidValueError(name, _("at least {least}", least=least), getattr(self, name))
        if not 0 < self.relevance_min <= 1:
            raise InvalidValueError("relevance_min", _("above 0, at most 1"), self.relevance_min)

    @property
    def relevance_kept(self) -> float:
        """Minimum relevance at which a collected page stays."""
        return KEEP_SHARE * self.relevance_min

    def permits(self, url: str) -> bool:
        """Returns whether a normalised URL is in a domain that is allowed and not denied."""
        host = host_of(url).rpartition(":")[0]
        if any(_within(host, domain) for domain in self.deny_domains):
            return False
        return not self.allow_domains or any(_within(host, domain) for domain in self.allow_domains)


def _within(host: str, domain: str) -> bool:
    domain = domain.lower().strip(".")
    return host == domain or host.endswith("." + domain)


# Relevance of a text to a topic: the vector space model, cosine of TF-IDF vectors (the relevance used by [C]).

TERMS = 1 << 18
"""Number of hash buckets of terms: of the 2,000 terms of a long page about 15 share a bucket with another."""
_LETTERS = re.compile(r"[^\W\d_]+")
_TO_SPACES = str.maketrans(dict.fromkeys((chr(code) for code in range(128) if not chr(code).isalpha()), " "))
_SHORTEST, _LONGEST = 2, 30
# Scripts written without spaces: their terms are pairs of signs.
_UNSPACED = re.compile("[\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+")
# Accents left without a composed letter, points of Hebrew and Arabic: with them a word would end at each.
_MARKS = re.compile(
    "[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"
    "\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed]+"
)


def terms(text: str, stems: Mapping[str, str] | None = None) -> Counter[str]:
    """Returns the terms of a text with their counts: words in lower case, pairs of signs in scripts without spaces.

    A word has 2 to 30 letters. A letter that is written as a base letter and a mark counts as the composed one; points
    of Hebrew and Arabic do not count. stems: maps every word to its stem; None: words as they are.
    """
    text = text.lower()
    if text.isascii():
        # Takes half the time of the pattern.
        return _stemmed(_words(text.translate(_TO_SPACES).split()), stems)
    text = _MARKS.sub("", unicodedata.normalize("NFC", text))
    counts = _stemmed(_words(_LETTERS.findall(_UNSPACED.sub(" ", text))), stems)
    counts.update(run[i : i + 2] for run in _UNSPACED.findall(text) for i in range(max(len(run) - 1, 1)))
    return counts


def _words(runs: list[str]) -> Counter[str]:
    """Counts the runs of letters that are words."""
    counted = Counter(runs)
    lengths = set(map(len, counted))
    if lengths and not _SHORTEST <= min(lengths) <= max(lengths) <= _LONGEST:
        for run in [run for run in counted if not _SHORTEST <= len(run) <= _LONGEST]:
            del counted[run]
    return counted


def _stemmed(words: Counter[str], stems: Mapping[str, str] | None) -> Counter[str]:
    if stems is None:
        return words
    counts = Counter[str]()
    for word, count in words.items():
        counts[stems[word]] += count
    return counts


class Vocabulary:
    """Document frequency of terms over the texts added so far.

    Takes 1 MiB, regardless of its contents. A topic is distinguished from a background, so a few hundred pages of any
    kind (the seeds, and pages that they link to) should be added. language: one of `LANGUAGES`, to reduce words
    to their stems, also in topics made with it; "": words as they are.
    """

    def __init__(self, language: str = "") -> None:
        self.stems = stems_of(language)
        self._texts = 0
        self._holding = np.zeros(TERMS, np.int32)

    def add(self, text: str) -> None:
        """Adds the terms of a text."""
        self._texts += 1
        self._holding[np.unique(_places(terms(text, self.stems)))] += 1

    def weights(self) -> NDArray[np.float64]:
        """Returns the inverse document frequency of all terms, `1 + ln((1 + N) / (1 + N_t))`, float64[2^18]."""
        return np.asarray(1.0 + np.log((1.0 + self._texts) / (1.0 + self._holding)), np.float64)


class Topic:
    """A topic, from example texts and keywords; only scores of the same Topic are comparable.

    All examples have equal weight, and all keywords together as much as all examples. Texts added to the vocabulary
    later have no effect: create a new Topic for them. Raises InvalidValueError if no text contains a term.
    """

    def __init__(self, examples: Sequence[str], keywords: Iterable[str], vocabulary: Vocabulary) -> None:
        self._idf, self._stems = vocabulary.weights(), vocabulary.stems
        self._axis = np.zeros(TERMS)
        for texts in (examples, [" ".join(keywords)]):
            self._add_direction(texts)
        length = float(np.linalg.norm(self._axis))
        if not length > 0:
            raise InvalidValueError("topic", _("examples or keywords with words in them"), [*examples][:3])
        self._axis /= length

    def score(self, text: str) -> float:
        """Returns the cosine between a text and the topic, 0 to 1; 0 for a text without terms."""
        return float(self.scores([text])[0])

    def scores(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Returns the scores of k texts, float64[k]: many short ones, such as anchors, cost little more than one."""
        rows, places, weights = self._vectors(texts)
        along = np.bincount(rows, weights * self._axis[places], len(texts))
        length = np.sqrt(np.bincount(rows, weights * weights, len(texts)))
        # Rounding may give a cosine above 1.
        return np.minimum(np.divide(along, length, out=np.zeros(len(texts)), where=length > 0), 1.0)

    def _add_direction(self, texts: Sequence[str]) -> None:
        """Adds the mean direction of the texts to the axis."""
        rows, places, weights = self._vectors(texts)
        length = np.sqrt(np.bincount(rows, weights * weights, len(texts)))
        mean = np.bincount(places, weights / length[rows], TERMS)
        if mean.any():
            self._axis += mean / np.linalg.norm(mean)

    def _vectors(self, texts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Returns row, term and TF-IDF weight `(1 + ln n) idf` of each term of each text."""
        counted = [terms(text, self._stems) for text in texts]
        rows = np.repeat(np.arange(len(texts)), [len(each) for each in counted])
        places = _places(chain.from_iterable(counted))
        counts = np.fromiter(chain.from_iterable(each.values() for each in counted), np.float64)
        return rows, places, (1.0 + np.log(counts)) * self._idf[places]


def _place(term: str) -> int:
    return xxhash.xxh3_64_intdigest(term.encode("utf-8", "replace")) % TERMS


_PLACES = BoundedMemo(_place)


def _places(words: Iterable[str]) -> NDArray[np.int64]:
    return np.fromiter(map(_PLACES.__getitem__, words), np.int64)
