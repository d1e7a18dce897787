"""Scores an allocator on recorded histories of real pages and on Zipf pages, compared with known rates and round robin.

A history file is an .npz with `<source>/times` (UTC epoch s of the changes, sorted within each page), `<source>/indptr`
(page i has times[indptr[i]:indptr[i + 1]]), `<source>/birth` and `<source>/end` (when each page was first and last
observed). The budget is a multiple of the rate of all changes of a source; the first part of a history, `start` of it,
is skipped. One poll a step, at most 20,000 of them, of at most 300 pages.

    python benchmarks/histories.py --histories traces.npz --rows changes --out before.json
    python benchmarks/histories.py --histories traces.npz --rows changes --out after.json --against before.json

Rows: `changes` (64 on 8 sources), `freshness` and `interest` (16 each; the half-life of interest is one uniform cycle),
`zipf` (512 shuffled pages, in intervals of polls), `zipf-sorted` (the same, in order of their rates), `fading` (60
pages, two of which bring news that fade within a fraction of a uniform cycle to one cycle), `signals` (the histories
with ten pushed sources of recall .9 and precision .6; the share of changes found in the second half) and `ours-web`
(the webs of `pollerd reproduce ours-web`, but for those of `zipf`).
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.index import g
from pollerd.allocation.registry import create
from pollerd.lab.environments.web import Policy, run_web
from pollerd.lab.environments.zipf import Zipf
from pollerd.lab.experiments.learning_curves import means
from pollerd.lab.experiments.ours_web.competitors import ENVIRONMENTS
from pollerd.lab.experiments.ours_web.contest import ENDS

MAX_PAGES = 300
MAX_STEPS = 20_000
EPOCH_S = 1.75e9
BUDGETS = {
    "changes": [(0.5, 0.15), (0.5, 0.3), (0.5, 0.45), (1.0, 0.3), (2.0, 0.15), (2.0, 0.3), (2.0, 0.45), (8.0, 0.3)],
    "freshness": [(0.5, 0.3), (2.0, 0.3)],
    "interest": [(0.5, 0.3), (2.0, 0.3)],
}
"""Multiples of the rate of all changes, and the part of the history that is skipped."""
ZIPF = [(0.3, 1.0), (0.3, 1.5), (0.9, 1.5)]
"""(α, β): the page of rank r changes in a step with probability α / r^β."""
ZIPF_PAGES = 512
ZIPF_EDGES = (1000, 2000, 5000, 10_000, 20_000)
"""Ends of the intervals of polls."""
STEP_S = 10.0

SIGNAL_BUDGETS = (0.5, 2.0)
SIGNAL_QUALITY = (0.9, 0.6)
"""Recall and precision of the sources."""
SIGNAL_POLLS_A_PAGE = 20

OURS_WEB_POLLS = (200, 5_200)
"""Polls up to the end of the first interval, at least, and of the last, at most: shares of few polls are chance."""

FADING_PAGES = 60
FADING_HALF_LIVES = (0.2, 1.0, 6.0, 60.0)
"""Half-lives in steps; a uniform cycle has FADING_PAGES of them."""

Choose = Callable[[NDArray[np.float64], float], int]
"""Chooses the slot to poll, by elapsed time (s) since the last poll of each, at a time (UTC epoch s)."""
Learn = Callable[[int, float, bool, float], None]
"""Learns from a poll: slot, gap (s), whether a change was found, time."""


@dataclass(frozen=True)
class Score:
    """One run: a source at a budget, or a web by its interval of polls and seed."""

    name: str
    found: float
    """Share of polls that found a change (changes), of page time that the copy was current, of the value of news."""
    best: float = math.nan
    """The same for the index policy with every page's true mean rate; for webs, the optimum."""
    uniform: float = math.nan
    """The same for round robin."""


@dataclass(frozen=True)
class ChangeTimes:
    """Change times (s) of n pages within a window of `span` s that starts at `start`."""

    times: NDArray[np.float64]
    first: NDArray[np.int64]
    start: float
    span: float

    @property
    def rates(self) -> NDArray[np.float64]:
        """Mean rates in 1/s, float64[n]."""
        return np.maximum(np.diff(self.first), 0.5) / self.span


def load(path: Path, source: str, start: float) -> ChangeTimes:
    """Loads a source's history after its first part `start`, only pages with changes in it."""
    stored = np.load(path)
    times, first, birth, end = (
        stored[f"{source}/{key}"].astype(np.int64) for key in ("times", "indptr", "birth", "end")
    )
    begin, stop = int(birth.min() + start * (end.max() - birth.min())), int(end.max())
    pages = [part[(part >= begin) & (part < stop)] for part in (times[a:b] for a, b in pairwise(first))]
    kept = [i for i, part in enumerate(pages) if len(part) and birth[i] < stop and end[i] > begin]
    if len(kept) > MAX_PAGES:
        kept = sorted(np.random.default_rng(0).choice(kept, MAX_PAGES, replace=False).tolist())
    begin, stop = int(np.maximum(birth[kept], begin).min()), int(np.minimum(end[kept], stop).max())
    edges = np.cumsum([0, *(len(pages[i]) for i in kept)])
    return ChangeTimes(np.concatenate([pages[i] for i in kept]).astype(float), edges, float(begin), float(stop - begin))


def replay(history: ChangeTimes, budget: float, decay: float, choose: Choose, learn: Learn) -> dict[str, float]:
    """Replays polls at `budget` (1/s): returns shares as in `Score.found`, by objective; decay (1/s) of interest."""
    at, end = history.first[:-1].copy(), history.first[1:]
    n, t0 = len(at), history.start
    for i in range(n):
        while at[i] < end[i] and history.times[at[i]] <= t0:
            at[i] += 1
    steps = min(int(history.span * budget), MAX_STEPS)
    span = min(history.span, steps / budget)
    last, hits, stale, value = np.full(n, t0), 0, 0.0, 0.0
    for step in range(steps):
        now = t0 + (step + 1) / budget
        i = choose(now - last, now)
        begin = at[i]
        while at[i] < end[i] and history.times[at[i]] <= now:
            at[i] += 1
        changed = bool(at[i] > begin)
        if changed:
            hits += 1
            stale += now - history.times[begin]
            value += float(np.exp(-decay * (now - history.times[begin : at[i]])).sum())
        gap, last[i] = now - last[i], now
        learn(i, gap, changed, now)
    for i in range(n):
        if at[i] < end[i] and history.times[at[i]] <= t0 + span:
            stale += t0 + span - history.times[at[i]]
    within = int(((history.times > t0) & (history.times <= t0 + span)).sum())
    return {"changes": hits / steps, "freshness": 1.0 - stale / (n * span), "interest": value / max(within, 1)}


def _nothing(slot: int, gap: float, changed: bool, now: float) -> None:
    """Learns nothing."""


def _index_policy(objective: str, rates: NDArray[np.float64], decay: float) -> Choose:
    match objective:
        case "changes":
            return lambda elapsed, now: int(np.argmax(rates * elapsed))
        case "freshness":
            return lambda elapsed, now: int(np.argmax(g(rates * elapsed) / rates))
        case _:
            return lambda elapsed, now: int(np.argmax(rates * g(decay * elapsed)))


def _policy(name: str, objective: str, budget: float, n: int, half_life: float, seed: int) -> tuple[Choose, Learn]:
    allocator = create(name, budget=budget, objective=objective, rng=np.random.default_rng(seed + 1))
    allocator.add(np.arange(n), np.ones(n), np.ones(n), np.full(n, half_life))
    everyone = np.ones(n, np.bool_)

    def choose(elapsed: NDArray[np.float64], now: float) -> int:
        return int(allocator.select(elapsed, now, everyone, 1)[0])

    def learn(slot: int, gap: float, changed: bool, now: float) -> None:
        allocator.observe(np.array([slot]), np.array([gap]), EvidenceBatch(np.array([changed])), now)

    return choose, learn


def real_row(allocator: str, objective: str, path: Path, job: tuple[str, float, float]) -> list[Score]:
    """Runs one source at one budget and start."""
    source, multiple, start = job
    history = load(path, source, start)
    n, rates = len(history.first) - 1, history.rates
    budget = multiple * len(history.times) / history.span
    half_life = n / budget
    decay = math.log(2) / half_life
    run = partial(replay, history, budget, decay)
    ours = run(*_policy(allocator, objective, budget, n, half_life, 0))[objective]
    best = run(_index_policy(objective, rates, decay), _nothing)[objective]
    uniform = run(lambda elapsed, now: int(np.argmax(elapsed)), _nothing)[objective]
    return [Score(f"{source} x{multiple:g} from {start:.0%}", ours, best, uniform)]


def zipf_row(allocator: str, in_order: bool, job: tuple[float, float, int]) -> list[Score]:
    """Runs one Zipf web, a row per interval of polls; scores are shares of the detections with optimal periods."""
    alpha, beta, seed = job
    rng = np.random.default_rng(seed)
    chance = alpha / np.arange(1, ZIPF_PAGES + 1) ** beta
    ideal = 1.0 - np.prod(1.0 - chance)
    if not in_order:
        chance = rng.permutation(chance)
    choose, learn = _policy(allocator, "changes", 1.0 / STEP_S, ZIPF_PAGES, 1.0, seed)
    last, found = np.zeros(ZIPF_PAGES), np.zeros(ZIPF_EDGES[-1])
    for step in range(1, ZIPF_EDGES[-1] + 1):
        now = EPOCH_S + step * STEP_S
        slot = choose((step - last) * STEP_S, now)
        gap = step - last[slot]
        changed = bool(rng.random() < 1.0 - (1.0 - chance[slot]) ** gap)
        last[slot], found[step - 1] = step, changed
        learn(slot, gap * STEP_S, changed, now)
    parts = np.split(found, ZIPF_EDGES[:-1])
    name = f"zipf {alpha:g}/{beta:g}"
    starts = (0, *ZIPF_EDGES[:-1])
    return [
        Score(f"{name} #{seed} polls {start}-{end}", float(part.mean()) / ideal, 1.0)
        for start, end, part in zip(starts, ZIPF_EDGES, parts, strict=True)
    ]


def fading_row(allocator: str, job: tuple[float, int]) -> list[Score]:
    """Returns the value of news under `interest` after the first five of twenty cycles, relative to known rates."""
    half_life, seed = job
    rates = np.full(FADING_PAGES, 0.002)
    rates[0], rates[-1] = 0.5, 2.0
    rates = np.random.default_rng(seed).permutation(rates)
    decay = math.log(2) / half_life

    def value(choose: Choose, learn: Callable[[int, float, int, float], None]) -> float:
        rng, last, total = np.random.default_rng(seed + 999), np.full(FADING_PAGES, EPOCH_S), 0.0
        for step in range(1, 20 * FADING_PAGES + 1):
            now = EPOCH_S + step
            slot = choose(now - last, now)
            gap, last[slot] = now - last[slot], now
            count = int(rng.poisson(rates[slot] * gap))
            found = float(np.exp(-decay * rng.uniform(0.0, gap, count)).sum())
            total += found if step > 5 * FADING_PAGES else 0.0
            learn(slot, gap, count, now)
        return total

    policy = create(allocator, budget=1.0, objective="interest", rng=np.random.default_rng(seed + 1))
    policy.add(np.arange(FADING_PAGES), np.ones(FADING_PAGES), np.ones(FADING_PAGES), np.full(FADING_PAGES, half_life))
    everyone = np.ones(FADING_PAGES, np.bool_)

    def learn(slot: int, gap: float, count: int, now: float) -> None:
        evidence = EvidenceBatch(np.array([count > 0]), count=np.array([count]))
        policy.observe(np.array([slot]), np.array([gap]), evidence, now)

    ours = value(lambda elapsed, now: int(policy.select(elapsed, now, everyone, 1)[0]), learn)
    best = value(_index_policy("interest", rates, decay), lambda *_: None)
    return [Score(f"fading half-life {half_life / FADING_PAGES:.3g} cycles #{seed} polls all", ours / best, 1.0)]


def signals_row(allocator: str, path: Path, job: tuple[str, float, int]) -> list[Score]:
    """Runs one source at one budget, with pushed sources that announce its changes."""
    from signals_histories import GROUPS, made_up, pages_of  # it imports this file
    from signals_histories import run as replay_signals

    source, multiple, seed = job
    history = load(path, source, 0.3)
    pages, n = pages_of(history), len(history.first) - 1
    budget = multiple * len(history.times) / history.span
    steps = min(int(history.span * budget), SIGNAL_POLLS_A_PAGE * n)
    begin, end = history.start, history.start + steps / budget
    of_source = np.random.default_rng(seed).integers(0, GROUPS, n)
    policy = create(allocator, budget=budget, objective="changes", rng=np.random.default_rng(0))
    policy.add(np.arange(n), np.ones(n), np.ones(n))
    for group in range(GROUPS):
        policy.add_source(group, np.flatnonzero(of_source == group))
    signals = list(made_up(pages, SIGNAL_QUALITY, begin, end, seed))
    found = replay_signals(policy, pages, signals, of_source, (begin, end, steps))["found"]
    return [Score(f"signals {source} x{multiple:g} #{seed} polls all", found)]


def _is_zipf(zipf: Zipf) -> bool:
    """Whether the web is one of the rows `zipf`."""
    return zipf.pages == ZIPF_PAGES and zipf.order == "shuffled" and not zipf.switch_every


def ours_web_row(allocator: str, job: tuple[int, int]) -> list[Score]:
    """Runs one web of `ours-web`, a row per interval of polls a page; scores are shares of its optimum."""
    place, seed = job
    environment = ENVIRONMENTS[place]
    zipf = environment.zipf
    fewest, most = OURS_WEB_POLLS
    ends = [end for end in ENDS if end <= environment.polls_a_page("full") and fewest <= end * zipf.pages <= most]
    edges = [end * zipf.pages for end in ends]
    found = run_web(zipf, Policy(allocator), edges[-1], np.random.SeedSequence(seed)).found
    shares = means(found, edges) / zipf.optimum
    name = f"ours-web {environment.name.replace(',', '')} #{seed}"
    return [
        Score(f"{name} polls {start}-{end}", share, 1.0)
        for start, end, share in zip((0, *ends), ends, shares.tolist(), strict=False)
    ]


def jobs(
    rows: str, allocator: str, path: Path | None, runs: int
) -> tuple[Callable[..., list[Score]], list[tuple[Any, ...]]]:
    """Returns the function for `rows`, and the arguments of each run."""
    if rows == "fading":
        return partial(fading_row, allocator), [(life, seed) for life in FADING_HALF_LIVES for seed in range(runs)]
    if rows.startswith("zipf"):
        run = partial(zipf_row, allocator, rows == "zipf-sorted")
        return run, [(alpha, beta, seed) for alpha, beta in ZIPF for seed in range(runs)]
    if rows == "ours-web":
        webs = [i for i, web in enumerate(ENVIRONMENTS) if not _is_zipf(web.zipf)]
        return partial(ours_web_row, allocator), [(web, seed) for web in webs for seed in range(runs)]
    if path is None:
        sys.exit("--histories FILE is needed for rows of real pages")
    sources = sorted({name.split("/")[0] for name in np.load(path).files if "/" in name})
    if rows == "signals":
        signalled = [
            (source, multiple, seed) for multiple in SIGNAL_BUDGETS for source in sources for seed in range(runs)
        ]
        return partial(signals_row, allocator, path), signalled
    run = partial(real_row, allocator, rows, path)
    return run, [(source, *budget) for budget in BUDGETS[rows] for source in sources]


def summary(rows: Iterable[Score]) -> Iterator[str]:
    """Yields a Markdown table of the rows, with geometric means of real ones and means of intervals of Zipf webs."""
    rows = list(rows)
    if rows[0].name.startswith(("zipf", "fading", "signals", "ours-web")):
        yield "| web | polls | share of the best, or of all changes |\n|---|---|---|"
        groups: dict[tuple[str, str], list[float]] = {}
        for row in rows:
            web, polls = row.name.split(" #")[0], row.name.rsplit("polls ", 1)[1]
            groups.setdefault((web, polls), []).append(row.found)
        for (web, polls), found in groups.items():
            error = np.std(found, ddof=1) / math.sqrt(len(found)) if len(found) > 1 else math.nan
            yield f"| {web} | {polls} | {np.mean(found):.3f} ± {error:.3f} |"
        return
    yield "| row | found | told the rates | round robin | to told | to round robin |\n|---|---|---|---|---|---|"
    for row in rows:
        told, blind = row.found / row.best, row.found / row.uniform
        yield f"| {row.name} | {row.found:.3f} | {row.best:.3f} | {row.uniform:.3f} | {told:.3f} | {blind:.3f} |"
    to_told, to_blind = np.array([(row.found / row.best, row.found / row.uniform) for row in rows]).T
    means = [float(np.exp(np.log(x).mean())) for x in (to_told, to_blind)]
    yield f"| geometric mean, worst to round robin | | | | {means[0]:.4f} | {means[1]:.4f}, {to_blind.min():.3f} |"


def comparison(rows: list[Score], before: list[Score]) -> str:
    """Returns the paired change of the rows: mean logarithm of the ratio in per cent, standard error, worst row."""
    then = {row.name: row for row in before}
    ratio = np.log([max(row.found, 1e-9) / max(then[row.name].found, 1e-9) for row in rows])
    error = ratio.std(ddof=1) / math.sqrt(len(ratio))
    worst = rows[int(ratio.argmin())]
    lines = [
        f"{len(rows)} rows: {100 * math.expm1(ratio.mean()):+.2f} ± {100 * error:.2f} %, worst {worst.name} "
        f"{100 * math.expm1(ratio.min()):+.1f} %"
    ]
    for row in rows:
        was, now = then[row.name].found / row.uniform, row.found / row.uniform
        if was >= 0.99 > now:
            lines.append(f"below .99 of round robin now: {row.name}, {was:.3f} before, {now:.3f} now")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=Path, help="the .npz file")
    parser.add_argument(
        "--rows", choices=(*BUDGETS, "zipf", "zipf-sorted", "fading", "signals", "ours-web"), default="changes"
    )
    parser.add_argument("--allocator", default="whittle")
    parser.add_argument("--runs", type=int, default=10, help="of each web that is made")
    parser.add_argument("--out", type=Path, help="write the rows as JSON")
    parser.add_argument("--against", type=Path, help="rows of another version, as --out wrote them")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    given = parser.parse_args()
    run, arguments = jobs(given.rows, given.allocator, given.histories, given.runs)
    with ProcessPoolExecutor(given.jobs) as pool:
        rows = [row for result in pool.map(run, arguments) for row in result]
    if given.out:
        given.out.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    print("\n".join(summary(rows)))
    if given.against:
        print(comparison(rows, [Score(**row) for row in json.loads(given.against.read_text())]))


if __name__ == "__main__":
    main()
