"""Sentences with marked parts: times, which browsers write in the reader's zone, and figures to stand out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pollerd.plots.ticks import moment_text


@dataclass(frozen=True, slots=True)
class Moment:
    """A time, epoch s."""

    at: float

    def __str__(self) -> str:
        return f"{moment_text(self.at)} UTC"


@dataclass(frozen=True, slots=True)
class Strong:
    """Text that stands out."""

    text: str

    def __str__(self) -> str:
        return self.text


Part = str | Moment | Strong
Sentence = tuple[Part, ...]


def plain(sentence: Iterable[Part]) -> str:
    """Returns the sentence as text, with times in UTC."""
    return "".join(map(str, sentence))
