"""What policies find on the replayed pages of head_to_head.py, in virtual time and with the same number of polls.

    python benchmarks/short_horizon.py --traces DIR

Each poll sees the true state of its page, and a poll that sees another state than the one before it reports. Printed
are the polls that found something, and how many of the changes that a reader sees were reported, as head_to_head.py
counts them (but for those that only reorder a feed): a report stands for all changes since the page's previous one.
Half of the polls go to new pages while there are any. The learner that is told the rates' distribution knows how many
pages have which rate, but not which page has it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from peer_runs.contents import Page, States, pages, whole

from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.registry import create

HOURS, ROUNDS, POLLS_PER_ROUND = 3.0, 16, 74.5
"""Of the pages in a round; rounds; as head_to_head.py has them."""
START = 1.75e9
Rates = NDArray[np.float64]


class History:
    """One page: when its state changed, in seconds, and what it then was; counted: the changes that should be found."""

    def __init__(self, page: Page, state: Callable[[int], int], end: float, settle: float) -> None:
        self.times, self.states = [-np.inf], [state(0)]
        self.counted: list[float] = []
        for version, at in _versions(page, end):
            if state(version) != self.states[-1]:
                self.times.append(at)
                self.states.append(state(version))
                self.counted += [at] if settle < at <= end - settle else []

    def at(self, now: float) -> int:
        """Returns the state at a time."""
        return self.states[int(np.searchsorted(self.times, now, "right")) - 1]


def _versions(page: Page, end: float) -> Iterator[tuple[int, float]]:
    """Yields the versions after the first and when they come, until the end."""
    for cycle in count():
        for index, at in enumerate(page.times):
            moment = cycle * page.period + (at if index else 0.0)
            if moment > end:
                return
            if cycle or index:
                yield cycle * len(page.times) + index, moment


class Policy(Protocol):
    """Chooses pages, and is told what a poll found; gap: seconds since the page's poll before, None at its first."""

    def choose(self, gaps: Rates, now: float, known: NDArray[np.bool_]) -> int: ...

    def told(self, page: int, gap: float, changed: bool, now: float) -> None: ...


class Allocating:
    """An allocator of pollerd."""

    def __init__(self, name: str, objective: str, number: int, budget: float) -> None:
        self._allocator = create(name, budget=budget, objective=objective, rng=np.random.default_rng(1))
        self._allocator.add(np.arange(number), np.ones(number), np.ones(number))

    def choose(self, gaps: Rates, now: float, known: NDArray[np.bool_]) -> int:
        return int(self._allocator.select(gaps, START + now, known, 1)[0])

    def told(self, page: int, gap: float, changed: bool, now: float) -> None:
        evidence = EvidenceBatch(np.array([changed]), np.array([np.nan]), np.array([-1]))
        self._allocator.observe(np.array([page]), np.array([gap]), evidence, START + now)


class Believing:
    """The index of the objective under beliefs about the rates: those of all pages at first, or each page's own."""

    def __init__(self, rates: Rates, objective: str, *, own: bool) -> None:
        self._rates, self._fresh = rates, objective == "freshness"
        self._log = np.where(np.eye(len(rates), dtype=bool) | (not own), 0.0, -np.inf)

    def choose(self, gaps: Rates, now: float, known: NDArray[np.bool_]) -> int:
        belief = np.exp(self._log - self._log.max(1, keepdims=True))
        z = self._rates * gaps[:, None]
        index = (1 - (1 + z) * np.exp(-z)) / (self._rates if self._fresh else 1.0)
        value = (belief / belief.sum(1, keepdims=True) * index).sum(1)
        return int(np.argmax(np.where(known, value, -1.0)))

    def told(self, page: int, gap: float, changed: bool, now: float) -> None:
        z = self._rates * max(gap, 1e-9)
        self._log[page] += np.log(-np.expm1(-z)) if changed else -z


def run(policy: Policy, histories: list[History], end: float, polls: int) -> tuple[int, int]:
    """Returns the polls that found something, and the changes reported."""
    number, found = len(histories), 0
    seen: list[int | None] = [None] * number
    first, last, reported = np.zeros(number), np.zeros(number), np.full(number, -np.inf)
    for turn in range(1, polls + 1):
        now = turn * end / polls
        known = np.array([state is not None for state in seen])
        ask_new = not known.all() and (turn % 2 == 1 or not known.any())
        page = int(np.argmin(known)) if ask_new else policy.choose(now - last, now, known)
        state = histories[page].at(now)
        if seen[page] is None:
            first[page] = now
        else:
            policy.told(page, now - last[page], state != seen[page], now)
            if state != seen[page]:
                found, reported[page] = found + 1, now
        seen[page], last[page] = state, now
    return found, sum(
        sum(first[i] < at <= reported[i] for at in history.counted) for i, history in enumerate(histories)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, required=True, help="folder of the replay server")
    options = parser.parse_args()
    found = pages(options.traces)
    states, settle = States(found, whole), HOURS * 3600
    end, polls = settle * ROUNDS, round(ROUNDS * POLLS_PER_ROUND)
    histories = [
        History(page, lambda version, name=name: states.of(name, version), end, settle)  # type: ignore[misc]
        for name, page in found.items()
    ]
    number, total = len(histories), sum(len(history.counted) for history in histories)
    rates = np.array([max(len(history.times) - 1, 0.3) / end for history in histories])
    policies: dict[str, Policy] = {
        "even split": Allocating("uniform", "changes", number, polls / end),
        "`whittle` for `changes`": Allocating("whittle", "changes", number, polls / end),
        "`whittle` for `freshness`": Allocating("whittle", "freshness", number, polls / end),
        "told the distribution of rates, `changes`": Believing(rates, "changes", own=False),
        "told the distribution of rates, `freshness`": Believing(rates, "freshness", own=False),
        "told each page's mean rate, `changes`": Believing(rates, "changes", own=True),
        "told each page's mean rate, `freshness`": Believing(rates, "freshness", own=True),
    }
    print(f"| of {polls} polls, {total} changes | polls that found something | changes reported |\n| --- | --- | --- |")
    for name, policy in policies.items():
        useful, reported = run(policy, histories, end, polls)
        print(f"| {name} | {useful} | {reported} |", flush=True)


if __name__ == "__main__":
    main()
