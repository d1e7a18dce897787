"""Hashes of the choices, beliefs and stored state of every allocator, over objectives, budgets, weights and seeds.

Two versions of the code choose identically, bit for bit, if their output is the same:

    PYTHONPATH=. python benchmarks/choice_hashes.py > before.json   # in the one
    PYTHONPATH=. python benchmarks/choice_hashes.py --against before.json
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import pollerd
from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.registry import create, names
from pollerd.errors import InvalidValueError

ROOT = Path(__file__).resolve().parents[1]
OBJECTIVES = ("changes", "freshness", "interest")
BUDGETS = (0.02, 0.5, 40.0)
SITES = (2, 30, 300)
STEPS = 160
START = 1.75e9


def history(name: str, objective: str, budget: float, n: int, *, equal: bool) -> str:
    """Returns the hash of one simulated run in which the budget is doubled half way."""
    rng = np.random.default_rng([n, len(name)])
    allocator = create(name, budget=budget, objective=objective, rng=np.random.default_rng(5))
    weights = np.ones(n) if equal else rng.uniform(0.5, 4.0, n)
    allocator.add(np.arange(n), weights, np.ones(n) if equal else rng.uniform(0.5, 2.0, n))
    everyone = np.arange(n)
    allocator.place(everyone, everyone // 5)
    rate = rng.lognormal(np.log(budget / n), 1.5, n)
    last, now, digest = np.full(n, START), START, hashlib.sha256()
    k = max(1, n // 20)
    for step in range(STEPS):
        now += k / budget
        slots = allocator.select(now - last, now, np.ones(n, bool), k)
        gap = now - last[slots]
        changed = rng.random(len(slots)) < -np.expm1(-rate[slots] * gap)
        age = np.where(changed & (rng.random(len(slots)) < 0.3), gap * rng.random(len(slots)), np.nan)
        allocator.observe(slots, gap if step > 3 else np.full(len(slots), np.inf), EvidenceBatch(changed, age), now)
        last[slots] = now
        digest.update(slots.tobytes())
        if step == STEPS // 2:
            allocator.budget = budget * 2
            stored = allocator.site_state(everyone), allocator.shared_state()
            digest.update(stored[0].tobytes() + stored[1])
    for told in (allocator.rates(), *allocator.rate_interval(everyone), allocator.urgency(now - last, now)):
        digest.update(np.ascontiguousarray(told).tobytes())
    digest.update(allocator.change_probability(everyone, now - last).tobytes())
    digest.update(allocator.site_state(everyone).tobytes())
    return digest.hexdigest()[:16]


def hashes() -> Iterator[tuple[str, str]]:
    """Yields the name of each run and its hash; "refused" if the allocator does not accept it."""
    for name in names():
        for objective in OBJECTIVES:
            for budget in BUDGETS:
                for n in SITES:
                    for equal in (True, False):
                        key = f"{name}/{objective}/{budget:g}/{n}/{'equal' if equal else 'unequal'}"
                        try:
                            yield key, history(name, objective, budget, n, equal=equal)
                        except InvalidValueError as error:
                            yield key, f"refused: {error.field}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, help="what the other version printed; exit code 1 where they differ")
    arguments = parser.parse_args()
    if not Path(pollerd.__file__).is_relative_to(ROOT):  # an installed one would be compared with itself
        parser.error(f"this would try {pollerd.__file__}; set PYTHONPATH={ROOT}")
    warnings.simplefilter("error")
    now = dict(hashes())
    if arguments.against is None:
        print(json.dumps(now, indent=1))
        return
    before = json.loads(arguments.against.read_text())
    differ = sorted(key for key in now.keys() | before.keys() if now.get(key) != before.get(key))
    for key in differ:
        print(f"{key}: {before.get(key)} before, {now.get(key)} now")
    print(f"{len(now)} lives, {len(differ)} differ")
    sys.exit(bool(differ))


if __name__ == "__main__":
    main()
