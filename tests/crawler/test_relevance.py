"""TF-IDF cosines against the formula, word by word."""

from __future__ import annotations

import math
import re
from collections import Counter

import numpy as np
import pytest

from pollerd.crawler.topics import LANGUAGES, Topic, TopicSettings, Vocabulary, stems_of, terms
from pollerd.errors import InvalidValueError

BACKGROUND = [
    "the weather in the city and the news of the day",
    "the price of the house and the garden",
    "a telescope in the garden of the house",
    "the news and the sport of the day",
]
EXAMPLES = ["the telescope shows the planet and the star", "the orbit of a planet"]
KEYWORDS = ["galaxy", "planet"]


def vocabulary() -> Vocabulary:
    """One that has seen the background."""
    made = Vocabulary()
    for text in BACKGROUND:
        made.add(text)
    return made


def unit(vector: dict[str, float]) -> dict[str, float]:
    """The same direction, length 1."""
    length = math.sqrt(sum(weight * weight for weight in vector.values()))
    return {term: weight / length for term, weight in vector.items()}


def tfidf(text: str) -> dict[str, float]:
    """Weights by the textbook."""
    words = re.findall("[a-z]{2,}", text.lower())
    holding = {word: sum(word in re.findall("[a-z]{2,}", page) for page in BACKGROUND) for word in words}
    return {
        word: (1 + math.log(count)) * (1 + math.log((1 + len(BACKGROUND)) / (1 + holding[word])))
        for word, count in Counter(words).items()
    }


def brute_force(text: str) -> float:
    """Cosine with the sum of the mean example's and the keywords' directions."""
    mean: dict[str, float] = {}
    for example in EXAMPLES:
        for term, weight in unit(tfidf(example)).items():
            mean[term] = mean.get(term, 0.0) + weight
    axis = unit(mean)
    for term, weight in unit(tfidf(" ".join(KEYWORDS))).items():
        axis[term] = axis.get(term, 0.0) + weight
    axis = unit(axis)
    return sum(weight * axis.get(term, 0.0) for term, weight in unit(tfidf(text)).items())


def test_scores_are_the_textbook_cosines() -> None:
    topic = Topic(EXAMPLES, KEYWORDS, vocabulary())
    texts = ["The planet, the planet and the moon.", "the news of the day", "galaxy", "zebra xylophone"]
    assert topic.scores(texts) == pytest.approx([brute_force(text) for text in texts], abs=1e-12)
    assert topic.score(texts[0]) == pytest.approx(topic.scores(texts)[0])


def test_what_is_common_says_little() -> None:
    topic = Topic(EXAMPLES, (), vocabulary())
    without = Topic(EXAMPLES, (), Vocabulary())
    assert without.score("planet") < without.score("the")
    assert topic.score("planet") > topic.score("the")


def test_edges() -> None:
    topic = Topic((), KEYWORDS, Vocabulary())
    assert topic.scores([]).shape == (0,)
    assert topic.scores(["", "12 345 !"]).tolist() == [0.0, 0.0]
    assert topic.score("planet galaxy") == pytest.approx(1.0)
    assert np.all(topic.scores(["planet galaxy"] * 3) <= 1.0)
    with pytest.raises(InvalidValueError, match="topic"):
        Topic(["123"], [], Vocabulary())
    assert Topic(["", "planet"], [], Vocabulary()).score("planet") == pytest.approx(1.0)


def test_terms_of_any_script() -> None:
    assert terms("Äpfel äpfel ÄPFEL, naïve x 42") == {"äpfel": 3, "naïve": 1}
    assert terms("天文学 telescope") == {"天文": 1, "文学": 1, "telescope": 1}
    japanese = Topic(["天文学の本"], (), Vocabulary())
    assert japanese.score("天文台") > 0.1 > japanese.score("料理の店")


@pytest.mark.parametrize(
    ("written", "same"),
    [
        ("Mu\u0308hle an der E\u0301lbe", "Mühle an der Élbe"),  # base letter and mark
        ("q\u0323uiz", "quiz"),  # no composed letter
        ("\u0130STANBUL", "istanbul"),  # its small letter is i and a dot
        ("\u0645\u064e\u0637\u0652\u062d\u064e\u0646\u064e\u0629", "\u0645\u0637\u062d\u0646\u0629"),  # Arabic
        ("\u05d8\u05b7\u05d7\u05b2\u05e0\u05b8\u05d4", "\u05d8\u05d7\u05e0\u05d4"),  # Hebrew
    ],
)
def test_marks_do_not_split_words(written: str, same: str) -> None:
    assert terms(written) == terms(same)
    assert terms(written, None).total() == len(same.split())


def test_words_of_a_language_count_by_their_stems() -> None:
    mills = Topic(["A water mill mills flour"], ["milling"], Vocabulary("english"))
    assert terms("Mills, milling and the MILL", Vocabulary("english").stems) == {"mill": 3, "and": 1, "the": 1}
    assert mills.score("Milling, mills") == mills.score("mill mill") > 0
    plain = Topic(["A water mill mills flour"], ["milling"], Vocabulary())
    assert plain.score("milled") == 0 < mills.score("milled")


def test_languages_whose_words_would_be_cut_are_not_offered() -> None:
    assert {"hindi", "porter"}.isdisjoint(LANGUAGES)
    assert {"arabic", "english", "russian"} <= set(LANGUAGES)
    with pytest.raises(InvalidValueError, match="language"):
        TopicSettings("x", keywords=("mills",), language="hindi")


def test_other_scripts_have_no_stems_and_german_has_others() -> None:
    german = Vocabulary("german").stems
    assert terms("Mühlen, die Mühle 天文学", german) == {"muhl": 2, "die": 1, "天文": 1, "文学": 1}


def test_stems_are_kept_for_words_met_lately_alone() -> None:
    stems = stems_of("english")
    assert stems is not None
    for number in range(70_000):
        word = "".join(chr(97 + number // 26**place % 26) for place in range(4))
        assert stems[word] == stems[word]
    assert 0 < len(stems) <= 65_536
    assert stems["running"] == "run"
