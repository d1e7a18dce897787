"""Checks on recorded histories how many pages change as often in the coming 30 days as `next_30_days` predicts.

A history file as in histories.py; `_meta`, if it is there, is JSON that names the class (`cls`) of each source. Each
source is replayed through `whittle` (objective `changes`) at .5, 2 and 8 polls for each change, 200 of its pages that
were observed for 45 days or more, up to 25,000 polls. From the 30th day on, every 30 days, each page with five polls or
more that is observed for 30 days more is a case: the interval of the number of its changes by what was learned, and the
number of changes that came. Pages with even numbers were used to fit the constant of
`pollerd/allocation/coming_changes.py`; the table is of the others, or of those with `--fitted`.

    python benchmarks/interval_calibration.py --histories traces.npz
    python benchmarks/interval_calibration.py --histories traces.npz --sources gcp_bigquery_docs mise_versions

Columns: cases; the share of them inside, below and above; `all`: the median of (high + 1) / (low + 1); `fast`: the
same, and the share inside, of cases of which two changes or more are predicted to be possible; `rate`: the share of
fast cases whose number is in the interval of the rate times 30 days, which is what explanations gave before.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.coming_changes import coming_changes
from pollerd.allocation.contract import Allocator
from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.registry import create

MONTH_S = 30 * 86_400.0
OBSERVED_S = 1.5 * MONTH_S
POLLS_A_CHANGE = (0.5, 2.0, 8.0)
MAX_PAGES, MAX_POLLS, LEAST_POLLS = 200, 25_000, 5
FIELDS = ("page", "low", "high", "changes", "rate low", "rate high")


@dataclass(frozen=True)
class Pages:
    """Pages of a source: their numbers in it, change times, first and last observation (UTC epoch s)."""

    numbers: NDArray[np.int64]
    times: list[NDArray[np.int64]]
    birth: NDArray[np.int64]
    end: NDArray[np.int64]


def load(path: Path, source: str) -> Pages:
    """Loads the pages of a source that were observed long enough, at most `MAX_PAGES` of them."""
    stored = np.load(path)
    times, first, birth, end = (
        stored[f"{source}/{key}"].astype(np.int64) for key in ("times", "indptr", "birth", "end")
    )
    numbers = np.flatnonzero(end - birth > OBSERVED_S)
    if len(numbers) > MAX_PAGES:
        numbers = np.sort(np.random.default_rng(0).choice(numbers, MAX_PAGES, replace=False))
    of_page = [times[a:b] for a, b in pairwise(first)]
    return Pages(numbers, [of_page[number] for number in numbers], birth[numbers], end[numbers])


def replay(path: Path, job: tuple[str, float]) -> NDArray[np.float64]:
    """Returns the cases of a source at a number of polls for each change, float64[cases, `FIELDS`]."""
    source, polls_a_change = job
    pages = load(path, source)
    n = len(pages.numbers)
    cases: list[NDArray[np.float64]] = [np.empty((0, len(FIELDS)))]
    if not n:
        return cases[0]
    per_page = polls_a_change * sum(map(len, pages.times)) / float((pages.end - pages.birth).sum())
    allocator = create("whittle", budget=per_page * n, objective="changes", rng=np.random.default_rng(1))
    allocator.add(np.arange(n), np.ones(n), np.ones(n))
    last, polls, done = pages.birth.astype(np.float64), np.zeros(n, np.int64), 0
    now, stop = float(pages.birth.min()), float(pages.end.max())
    month = now + MONTH_S
    while now < stop and done < MAX_POLLS:
        alive = (pages.birth <= now) & (pages.end > now)
        now += 1.0 / (per_page * max(int(alive.sum()), 1))
        if now > month:
            cases.append(cases_at(pages, allocator, np.flatnonzero(alive & (polls >= LEAST_POLLS)), month))
            month += MONTH_S
        if alive.any():
            page = int(allocator.select(now - last, now, alive, 1)[0])
            changed = changes(pages, page, last[page], now) > 0
            allocator.observe(np.array([page]), np.array([now - last[page]]), EvidenceBatch(np.array([changed])), now)
            last[page], polls[page], done = now, polls[page] + 1, done + 1
    return np.concatenate(cases)


def changes(pages: Pages, page: int, begin: float, end: float) -> int:
    """Returns the number of changes after `begin` up to `end`."""
    return int(np.diff(np.searchsorted(pages.times[page], [begin, end], "right"))[0])


def cases_at(pages: Pages, allocator: Allocator, slots: NDArray[np.int64], at: float) -> NDArray[np.float64]:
    """Returns the cases of the pages in slots int64[k] that are observed for 30 days from `at` on."""
    slots = slots[pages.end[slots] >= at + MONTH_S]
    if not len(slots):
        return np.empty((0, len(FIELDS)))
    low, _, high = coming_changes(*allocator.belief_of(slots), MONTH_S)
    came = [changes(pages, page, at, at + MONTH_S) for page in slots.tolist()]
    rate_low, rate_high = allocator.rate_interval(slots)
    return np.column_stack([pages.numbers[slots], low, high, came, rate_low * MONTH_S, rate_high * MONTH_S])


def row(name: str, cases: NDArray[np.float64]) -> str:
    """Returns the line of the table of some cases."""
    _, low, high, came, rate_low, rate_high = cases.T
    inside, ratio, fast = (low <= came) & (came <= high), (high + 1) / (low + 1), high > 1
    of_rate = (np.floor(rate_low) <= came) & (came <= np.ceil(rate_high))
    shares = [float(part.mean()) for part in (inside, came < low, came > high)]
    columns = [*(f"{share:.3f}" for share in shares), f"{np.median(ratio):.1f}"]
    if fast.any():
        columns += [f"{inside[fast].mean():.3f}", f"{np.median(ratio[fast]):.1f}", f"{of_rate[fast].mean():.3f}"]
    return f"| {name} | {len(cases):,} | {' | '.join(columns)} |"


def classes(path: Path, sources: Sequence[str]) -> dict[str, str]:
    """Returns the class of each source; the source itself if the file names none."""
    stored = np.load(path)
    meta = json.loads(stored["_meta"].tobytes()) if "_meta" in stored.files else {}
    return {source: meta.get(source, {}).get("cls", source) for source in sources}


def table(results: dict[tuple[str, float], NDArray[np.float64]], class_of: Mapping[str, str]) -> Iterator[str]:
    """Yields the lines: each class of sources over its budgets, then each budget over the sources."""
    yield "| | cases | inside | below | above | width, all | inside, fast | width, fast | by the rate, fast |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    groups: dict[str, list[NDArray[np.float64]]] = {}
    for (source, _), cases in results.items():
        groups.setdefault(class_of[source], []).append(cases)
    for (_, polls_a_change), cases in results.items():
        groups.setdefault(f"{polls_a_change:g} polls a change", []).append(cases)
    for name, parts in groups.items():
        if any(map(len, parts)):
            yield row(name, np.concatenate(parts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=Path, required=True, help="the .npz file")
    parser.add_argument("--sources", nargs="*", help="some of the sources; all if none is named")
    parser.add_argument("--fitted", action="store_true", help="the pages that the constant was fitted on")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    arguments = parser.parse_args()
    known = sorted({name.split("/")[0] for name in np.load(arguments.histories).files if "/" in name})
    sources = arguments.sources or known
    if not sources or set(sources) - set(known):
        sys.exit(f"{arguments.histories} has these histories: {', '.join(known) or 'none'}")
    jobs = list(product(sources, POLLS_A_CHANGE))
    with ProcessPoolExecutor(arguments.jobs) as pool:
        results = dict(zip(jobs, pool.map(partial(replay, arguments.histories), jobs), strict=True))
    half = 0 if arguments.fitted else 1
    of_half = {job: cases[cases[:, 0] % 2 == half] for job, cases in results.items()}
    print("\n".join(table(of_half, classes(arguments.histories, sources))))


if __name__ == "__main__":
    main()
