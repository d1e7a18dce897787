"""After how many polls a rule of a mask is given up, by what it hides: simulated, the same at each run.

    python benchmarks/still_noise.py [--runs 200] [--polls 20000]

Noise is one of so many values at random; an edited place says something new at a share of the polls. Prints the share
of runs in which the rule is given up, and the median and the tenth part of the number of polls.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator
from functools import partial

from pollerd.daemon.prover import ENOUGH, OTHER, OTHER_OF_FEED, RuleWatch

Place = Callable[[random.Random], Iterator[int]]


def noise(values: int, rng: random.Random) -> Iterator[int]:
    """Yields what a place of so many values says at each poll."""
    while True:
        yield rng.randint(1, values)


def edits(share: float, rng: random.Random) -> Iterator[int]:
    """Yields what a place says that is edited before this share of the polls."""
    said = 1
    while True:
        said += rng.random() < share
        yield said


def given_up_after(place: Iterator[int], other: int, most: int) -> int:
    """Returns the number of polls, at most `most`."""
    rule = RuleWatch(doubtable=True)
    for number in range(1, most + 1):
        rule.compare(next(place), other)
        if rule.score >= ENOUGH:
            return number
    return most


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200, help="of each (default %(default)s)")
    parser.add_argument("--polls", type=int, default=20_000, help="at most, in a run (default %(default)s)")
    options = parser.parse_args()
    places: dict[str, Place] = {f"noise of {n} values": partial(noise, n) for n in (2, 3, 4, 10)}
    places |= {f"edited at {share:.0%}": partial(edits, share) for share in (0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.67)}
    print("| place | of a | given up | median | tenth |\n|" + " --- |" * 5)
    for name, place in places.items():
        for media, other in (("page", OTHER), ("feed", OTHER_OF_FEED)):
            found = sorted(
                given_up_after(place(random.Random(seed)), other, options.polls) for seed in range(options.runs)
            )
            share = sum(number < options.polls for number in found) / options.runs
            print(f"| {name} | {media} | {share:.3f} | {found[options.runs // 2]} | {found[options.runs // 10]} |")


if __name__ == "__main__":
    main()
