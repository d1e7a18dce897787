"""Texts of an artificial language for a topical web: the relevance of a text is the share of topic words in it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

TOPIC_WORDS, OTHER_WORDS = 200, 4_000
_SYLLABLES = [first + vowel for first in "bdfgklmnprstvz" for vowel in "aeiou"]
_LANGUAGE_SEED = 5_081


class Language:
    """Topic words and other words of a fixed artificial language, with Zipf-like frequencies.

    A share r of the words of a text of relevance r are topic words, as nearly as their number allows.
    """

    def __init__(self) -> None:
        rng = np.random.default_rng(_LANGUAGE_SEED)
        words = dict[str, None]()
        while len(words) < TOPIC_WORDS + OTHER_WORDS:
            words["".join(rng.choice(_SYLLABLES, rng.integers(2, 5)))] = None
        self.words = np.array(list(words))
        self._cumulative = [_zipf(TOPIC_WORDS), _zipf(OTHER_WORDS)]

    def text(self, relevance: float, length: int, rng: np.random.Generator) -> str:
        """Returns `length` words, at least 1, separated by spaces; relevance in [0, 1]."""
        # Randomised rounding: correct on average, and off by less than a word.
        on_topic = np.arange(length) < int(relevance * length + rng.random())
        rng.shuffle(on_topic)
        draws = rng.random(length)
        topic, other = (np.searchsorted(cumulative, draws) for cumulative in self._cumulative)
        return " ".join(self.words[np.where(on_topic, topic, TOPIC_WORDS + other)])

    def keywords(self, number: int) -> list[str]:
        """Returns the topic's most frequent words."""
        return [str(word) for word in self.words[: min(number, TOPIC_WORDS)]]


def _zipf(words: int) -> NDArray[np.float64]:
    """Returns cumulative probabilities, float64[words], of words whose frequency falls with their rank."""
    weights = 1.0 / (np.arange(words) + 10.0)
    # The last is above every draw.
    return np.append(np.cumsum(weights / weights.sum())[:-1], 1.0)
