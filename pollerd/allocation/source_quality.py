"""How a source of signals is read, and what was learned of it."""

from __future__ import annotations

from dataclasses import dataclass

PUSHED, ELSEWHERE = -1, -2
"""In place of the slot whose polls read a source: it speaks by itself; others read it."""


@dataclass(frozen=True, slots=True)
class SourceQuality:
    """How true a source of signals is, as learned from the polls of its pages.

    recall : share of the changes that it signals, 0 to 1.
    false_rate : signals per second and page that no change stands behind, >= 0.
    precision : share of its signals behind which a change stands, 0 to 1.
    delay : s from a change to its signal, >= 0; nan: not known.
    say : how far it is believed, 0 (not at all) to 1.
    polls : number of polls of its pages from which this was learned, with forgetting.
    signals : number of its signals since it was added.
    """

    recall: float
    false_rate: float
    precision: float
    delay: float
    say: float
    polls: float
    signals: int
