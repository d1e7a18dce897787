"""Half-lives of interest learned from reads, through the contract: Zipf pages of several hosts under `interest`.

One poll a step of 10 s; the budget is as many polls as there are changes (x1). The half-lives of hosts are drawn
log-uniformly from a minute to three days, those of their pages around them. A change that is found is read by a
Poisson number of readers, at ages that are exponential with the page's half-life, until the next change. A program
tells the reads of a page since its last poll at each of its polls; half-lives are learned by the rules of the daemon,
and passed to the allocator as it does.

Score: value of what is found, as the share of the best for known rates and half-lives, in the second half of the run.
`default`: a day for all pages. `told`: the truth. `learned`: from reads. Of pages that were read: `off`, the median
factor between the half-life in force at the end and the truth, `too long`, by how much it is longer in the median, and
`off by default`. Scores are means and standard errors over the seeds, the others means.

    python benchmarks/reads.py --seeds 4
"""

from __future__ import annotations

import argparse
import math
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.budget_split import value
from pollerd.allocation.contract import Allocator
from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.index import DEFAULT_HALF_LIFE_S, amplitude_and_rate, solve_price
from pollerd.allocation.reads import NO_EVIDENCE, WITHIN_HOST, HostEvidence, PublishedChange, Read, SiteReads
from pollerd.allocation.registry import create
from pollerd.daemon.control.reads import READ_RULES
from pollerd.lab.environments.changes import Changes, ZipfChanges
from pollerd.lab.environments.driving import EPOCH_S, STEP_S, Record, interest
from pollerd.lab.environments.zipf import Zipf

PAGES, HOSTS, POLLS_A_PAGE, ALPHA = 120, 12, 40, 0.17
SHORTEST_S, LONGEST_S = 60.0, 3 * 86_400.0
NAMED, FOUND = "of what pollerd found, named", "of what pollerd found"
ANY_TIME, OF_PAGE = "a fifth comes at any time", "of the page, before it was polled"
ROWS = (
    (NAMED, 0.3),
    (NAMED, 3.0),
    (NAMED, 30.0),
    (FOUND, 3.0),
    (FOUND, 30.0),
    (ANY_TIME, 30.0),
    (OF_PAGE, 3.0),
    (OF_PAGE, 30.0),
)
"""Who reads, and the mean number of reads of a change, if no other one followed."""


@dataclass
class Readers:
    """The readers of all pages: what they read is told at a page's polls."""

    kind: str
    per_change: float
    half_life: NDArray[np.float64]
    """Of each page, float64[n] s."""
    rates: NDArray[np.float64]
    """Changes of each page, 1/s, float64[n]."""
    rng: np.random.Generator
    coming: dict[int, list[float]] = field(default_factory=dict)
    """Page -> times of reads of its last change, epoch s."""

    def read(self, page: int, last: float, now: float, changed_at: float) -> list[float]:
        """Returns the times of reads from its last poll to this one. changed_at: epoch s; inf: unchanged."""
        found = changed_at < math.inf
        begins = changed_at if self.kind == OF_PAGE else now
        until = min(begins, now) if found else now
        reads = [at for at in self.coming.get(page, ()) if last < at <= until]
        if self.kind == ANY_TIME:
            number = self.rng.poisson(self.per_change / 4 * (now - last) * self.rates[page])
            reads += self.rng.uniform(last, now, number).tolist()
        if found:
            number = self.rng.poisson(self.per_change)
            times = (begins + self.rng.exponential(self.half_life[page] / math.log(2), number)).tolist()
            self.coming[page] = times
            reads += [at for at in times if at <= now]
        return reads


@dataclass
class Learner:
    """Learns half-lives from reads as the daemon does, and passes those that moved to an allocator."""

    allocator: Allocator
    sites: dict[int, SiteReads] = field(default_factory=dict)
    changes: dict[int, list[PublishedChange]] = field(default_factory=dict)
    evidence: dict[int, HostEvidence] = field(default_factory=dict)
    of_host: dict[int, HostEvidence] = field(default_factory=dict)
    in_force: dict[int, float] = field(default_factory=dict)

    def found(self, page: int, last: float, now: float) -> None:
        """A poll found a change; the last one was at `last`."""
        known = self.changes.setdefault(page, [])
        known.append(PublishedChange(known[-1].id + 1 if known else 1, now, last))
        del known[:-3]

    def take(self, page: int, reads: list[float], now: float, *, named: bool) -> None:
        """Takes reads of a page, right after a poll at `now`. named: they name their change."""
        known = self.changes.get(page, [])
        told = [Read(at, 1, _newest(known, at) if named else None) for at in reads]
        site, counts = READ_RULES.take(self.sites.get(page, SiteReads()), known, told, None, now)
        if not counts.taken:
            return
        self.sites[page] = site
        host, new = page % HOSTS, READ_RULES.evidence(site)
        others = self.of_host.get(host, NO_EVIDENCE).without(self.evidence.get(page, NO_EVIDENCE))
        self.evidence[page] = new
        self.of_host[host] = HostEvidence(others.precision + new.precision, others.weighted + new.weighted)
        learned = READ_RULES.estimate(site, None, others).value
        if READ_RULES.moved(self.in_force.get(page), learned):
            self.in_force[page] = learned
            self._pass(page, learned)

    def _pass(self, page: int, half_life: float) -> None:
        slots, one = np.array([page]), np.ones(1)
        state, shared = self.allocator.site_state(slots), self.allocator.shared_state()
        self.allocator.remove(slots)
        self.allocator.add(slots, one, one, np.array([half_life]))
        self.allocator.restore(slots, state, shared)


def _newest(changes: list[PublishedChange], at: float) -> int | None:
    """Returns the id of the newest change that was published then."""
    return next((one.id for one in reversed(changes) if one.published_at <= at), None)


def lived(
    allocator: Allocator, changes: Changes, polls: int, half_life: NDArray[np.float64], readers: Readers | None
) -> tuple[Record, Learner]:
    """Polls one page a step, as `drive` does. half_life float64[n] s, told at the start; nan: the default."""
    n, learner = changes.pages, Learner(allocator)
    allocator.add(np.arange(n), np.ones(n), np.ones(n), half_life)
    page, first, gap = np.empty(polls, np.int32), np.empty(polls), np.empty(polls)
    last, eligible = np.full(n, EPOCH_S), np.ones(n, np.bool_)
    for j in range(polls):
        now = EPOCH_S + (j + 1) * STEP_S
        chosen = allocator.select(now - last, now, eligible, 1)
        slot = int(chosen[0])
        elapsed = now - last[chosen]
        page[j], first[j], gap[j] = slot, changes.poll(slot, j + 1.0), elapsed[0] / STEP_S
        allocator.observe(chosen, elapsed, EvidenceBatch(np.array([first[j] < math.inf])), now)
        if readers is not None:
            reads = readers.read(slot, float(last[slot]), now, EPOCH_S + first[j] * STEP_S)
            if first[j] < math.inf:
                learner.found(slot, float(last[slot]), now)
            if reads:
                learner.take(slot, reads, now, named=readers.kind == NAMED)
        last[slot] = now
    return Record(page, np.rint(gap), first, changes.unseen(float(polls))), learner


def scores(seed: int) -> dict[tuple[str, float, str], float]:
    """Returns the scores in one world by readers, reads of a change and column."""
    zipf, polls = Zipf(PAGES, ALPHA, 1.0), POLLS_A_PAGE * PAGES
    lives = np.random.default_rng([seed, 1])
    hosts = lives.uniform(math.log(SHORTEST_S), math.log(LONGEST_S), HOSTS)
    truth = np.exp(hosts[np.arange(PAGES) % HOSTS] + lives.normal(0, WITHIN_HOST, PAGES))
    unknown = np.full(PAGES, np.nan)

    def world() -> ZipfChanges:
        return ZipfChanges(zipf, np.random.default_rng([seed, 2]))

    rates = world().rates() / STEP_S
    amplitude, decay = amplitude_and_rate("interest", rates, np.ones(PAGES), truth)
    best = value(solve_price(1.0 / STEP_S, amplitude, decay, np.ones(PAGES))[1], amplitude, decay) * STEP_S
    out: dict[tuple[str, float, str], float] = {}

    def run(given: NDArray[np.float64], readers: Readers | None) -> tuple[float, Learner]:
        allocator = create("whittle", budget=1.0 / STEP_S, objective="interest", rng=np.random.default_rng([seed, 3]))
        record, learner = lived(allocator, world(), polls, given, readers)
        found = interest(record, [polls // 2, polls], list(world().phases(polls)), decay * STEP_S)[1]
        return float(found / best), learner

    for name, given in (("default", unknown), ("told", truth)):
        out["", 0.0, name] = run(given, None)[0]
    for kind, per_change in ROWS:
        readers = Readers(kind, per_change, truth, rates, np.random.default_rng([seed, 4]))
        out[kind, per_change, "learned"], learner = run(unknown, readers)
        read = np.array(sorted(learner.sites), np.int64)
        known = np.array([learner.in_force.get(one, DEFAULT_HALF_LIFE_S) for one in read.tolist()])
        off, by_default = np.log(known / truth[read]), np.log(DEFAULT_HALF_LIFE_S / truth[read])
        out[kind, per_change, "pages read"] = len(read) / PAGES
        out[kind, per_change, "off"] = math.exp(np.median(np.abs(off)))
        out[kind, per_change, "too long"] = math.exp(np.median(off))
        out[kind, per_change, "off by default"] = math.exp(np.median(np.abs(by_default)))
    return out


COLUMNS = ("default", "learned", "told", "pages read", "off", "too long", "off by default")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--processes", type=int, default=1)
    arguments = parser.parse_args()
    print(f"| reads | of a change | {' | '.join(COLUMNS)} |\n|{' --- |' * (2 + len(COLUMNS))}", flush=True)
    with ProcessPoolExecutor(arguments.processes) as pool:
        found = list(pool.map(scores, range(arguments.seeds)))
    for kind, number in ROWS:
        cells = []
        for name in COLUMNS:
            key = ("", 0.0, name) if name in ("default", "told") else (kind, number, name)
            values = [one[key] for one in found]
            error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
            cells.append(f"{np.mean(values):.3f} ± {error:.3f}" if name in COLUMNS[:3] else f"{np.mean(values):.2f}")
        print(f"| {kind} | {number:g} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
