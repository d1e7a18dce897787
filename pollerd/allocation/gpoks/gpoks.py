"""GPOKS, Gaussian process based optimistic knapsack sampling ([B] 6), for a changing set of sites."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.gpoks.rate_groups import COLUMNS, RateGroups
from pollerd.allocation.gpoks.rate_groups import SOUND as SOUND_GROUPS
from pollerd.allocation.gpoks.regression import (
    VARIANTS,
    GaussianBelief,
    IndexSet,
    Kernel,
    believe,
    index_set,
    value_functions,
)
from pollerd.allocation.learned_state import all_sound, dump_rng, load_rng, own_generator
from pollerd.allocation.periodic import Periodic, water_filling
from pollerd.allocation.slots import (
    FIELDS,
    MEMORY_POLLS,
    SOUND,
    PollCounts,
    one_of,
    positive_or_0,
    put,
    rate_without_polls,
    whole,
)
from pollerd.errors import InvalidValueError

# Counts of polls and changes of each site by gap, with older ones faded: once for each candidate of forgetting.


class GapCounts:
    """Counts in the rows of sites, for C shares of the earlier polls that are kept when a site is polled.

    kept: the C shares, above 0 to 1; 1 keeps all. A share φ is exponential forgetting: a poll that n others followed
    counts φ^n, so that `1 / (1 - φ)` polls count in the long run. In a Gaussian process a poll with count c is one with
    noise σ_n² / c. Whatever the share, at `MEMORY_POLLS` a site's counts are halved.
    """

    def __init__(self, bins: int, kept: tuple[float, ...]) -> None:
        self._bins, self._kept = bins, np.array(kept)
        self.width = 2 * len(kept) * bins
        """Numbers in a site's row."""
        self.set_rows(np.zeros((0, self.width)))

    def set_rows(self, rows: NDArray[np.float64]) -> None:
        """Sets the rows float64[capacity, width], which are written to."""
        self._table = self._split(rows)

    def _split(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns rows as float64[k, C, 2, bins]: polls, then changes."""
        return rows.reshape(len(rows), len(self._kept), 2, self._bins)

    def of(self, slots: NDArray[np.int64], share: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns polls and changes of slots int64[k] under one share, by its number: float64[k, bins] each."""
        counts = self._table[slots, share]
        return counts[:, 0], counts[:, 1]

    def of_all(self, slots: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns polls and changes of slots int64[k] under each share, float64[k C, bins]: slot by slot."""
        counts = self._table[slots].reshape(-1, 2, self._bins)
        return counts[:, 0], counts[:, 1]

    def note(self, slots: NDArray[np.int64], bins: NDArray[np.int64], changed: NDArray[np.bool_]) -> None:
        """Adds polls of slots int64[k] with gaps in bins int64[k], and whether each found a change, bool[k].

        Slots may repeat only if the one share is 1: else their order matters (`rounds`).
        """
        fading = np.flatnonzero(self._kept < 1)
        if len(fading):
            self._table[slots[:, None], fading] *= self._kept[fading][:, None, None]
        for share in range(len(self._kept)):
            table = self._table[:, share]
            np.add.at(table[:, 0], (slots, bins), 1.0)
            np.add.at(table[:, 1], (slots, bins), changed)
            polled = np.unique(slots)
            while (full := table[polled, 0].sum(1) >= MEMORY_POLLS).any():
                table[polled[full]] /= 2

    def no_more_changes_than_polls(self, rows: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Returns, for stored rows float64[k, width], where there are no more changes than polls: bool[k, C, bins]."""
        polls, changes = np.moveaxis(self._split(rows), 2, 0)
        return np.asarray((changes >= 0) & (changes <= polls))

    def within_memory(self, rows: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Returns, for stored rows float64[k, width], which have at most `MEMORY_POLLS` polls: bool[k, C]."""
        return np.asarray(self._split(rows)[:, :, 0].sum(-1) <= MEMORY_POLLS)


def rounds(slots: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Yields rows int64 of slots int64[k], in order, so that none yielded together are of one slot."""
    order = np.argsort(slots, kind="stable")
    grouped = slots[order]
    first = np.searchsorted(grouped, grouped)
    turn = np.empty(len(slots), np.int64)
    turn[order] = np.arange(len(slots)) - first
    for number in range(int(turn.max(initial=-1)) + 1):
        yield np.flatnonzero(turn == number)


# Forgetting: the candidates of how fast old polls fade are weighted by their marginal likelihood.

KEPT: dict[str, tuple[float, ...]] = {"none": (1.0,), "learned": (1.0, 0.95, 0.85)}
"""Setting -> the candidates: share of a site's earlier polls kept when it is polled; 1 forgets nothing."""
_MIN_PROBABILITY = 0.01
"""Least probability of what a poll found. A Gaussian mean may lie outside 0 to 1."""
_LARGEST_LEAD = 10.0
"""Largest lead of a candidate, in nats: what the newest polls say may so outweigh what all before them said."""


class Forgetting:
    """Log marginal likelihood of each candidate, from all sites together.

    A poll finds a change with the probability f, a value of the site's function. Under the posterior of a candidate
    before the poll, that probability is the mean of f; the product over polls is the candidate's marginal likelihood,
    one poll predicted after the other (Dawid's prequential form). The candidate with the largest one is in use; at
    first, and on ties, the first, which forgets nothing.
    """

    def __init__(self, setting: str) -> None:
        self.kept = KEPT[setting]
        self.log_evidence = np.zeros(len(self.kept))
        """Log marginal likelihood of each candidate up to a constant: the largest is 0, none is below `-10`."""

    @property
    def is_learned(self) -> bool:
        """Whether there is more than one candidate."""
        return len(self.kept) > 1

    @property
    def chosen(self) -> int:
        """Number of the candidate in use."""
        return int(self.log_evidence.argmax())

    def score(self, mean: NDArray[np.float64], changed: NDArray[np.bool_]) -> None:
        """Counts k polls: the means float64[k, C] of f before them, by candidate, and whether each found a change."""
        probability = np.clip(mean, _MIN_PROBABILITY, 1 - _MIN_PROBABILITY)
        likelihood = np.where(changed[:, None], probability, 1 - probability)
        self.take(self.log_evidence + np.log(likelihood).sum(0))

    def take(self, log_evidence: NDArray[np.float64]) -> None:
        """Sets the log marginal likelihoods float64[C]."""
        self.log_evidence = np.maximum(log_evidence - log_evidence.max(), -_LARGEST_LEAD)


_DOUBLINGS = 36
_SHORTEST_S = 2.0**-10
"""Bins of gaps reach from a millisecond to two years; other gaps count as the nearest bin."""
_LONGEST_CYCLES = 16.0
"""Longest gap, as a multiple of the gap of an even split."""
_DOUBLINGS_A_POLL = 3
"""A site's next gap is at least its last one, halved this many times."""
_KERNEL = Kernel(signal=0.1, noise=0.02)
"""Suits chances between 0 and 1 and few polls per site among thousands. [B] has 1 and .1."""
_MAX_VALUE = 100.0
"""Upper bound of drawn functions: 300 deviations of the prior above a chance of 1."""
_DEVIATIONS_WITHOUT_POLLS = 1.25
"""A site without polls has the value of the prior mean plus this many deviations, less than a site seen to change."""
GROUPS = ("auto", "none", "rates")
GROUPED_FROM = 2_048
"""Number of sites from which "auto" has groups: from here on they save more than half of a poll's work."""
_UPDATES_PER_CYCLE = 16
"""Number of prior updates in as many polls as there are sites."""


@dataclass(frozen=True)
class GpoksSettings:
    """How value functions are drawn and stored.

    variant: one of `VARIANTS`, see gpoks/regression.py. points: points of the index set for each doubling of the gap, a
    whole number from 1 to 8. step: s between two polls, above 0; 0: 1 / budget. forgetting: one of `KEPT`: "none", or
    "learned": how fast earlier polls fade is chosen by marginal likelihood, see `Forgetting`. groups: one of
    `GROUPS`: "none", or "rates": two levels, groups of sites with like rates and sites, see gpoks/rate_groups.py;
    "auto": "rates" from `GROUPED_FROM` sites on.
    """

    variant: str = "ots+mono"
    points: int = 2
    step: float = 0.0
    forgetting: str = "learned"
    groups: str = "auto"

    def __post_init__(self) -> None:
        one_of("variant", self.variant, VARIANTS)
        one_of("forgetting", self.forgetting, KEPT)
        one_of("groups", self.groups, GROUPS)
        put(self, points=whole("points", self.points, 1, 8), step=positive_or_0("step", self.step))


class Gpoks(Periodic):
    """Models the change probability of each site by a Gaussian process and solves a knapsack on posterior draws.

    A drawn function gives the value of a poll at each frequency. DET-KS gives the budget in small steps to the site
    with the most valuable next step, until it is spent; then all sites have the same marginal value, [B] (2.1). Sites
    are polled at the resulting frequencies, earliest deadline first. After a poll its site's posterior is updated and
    its function is drawn again: so a draw is kept for the gap that it led to, and a poll costs one draw, not n.

    It differs from [B]'s program, made for 2 to 8 pages and simulated feedback. The index is the logarithm of the
    actual gap before the poll, in decades, and not the amount on [0, 1], on which all amounts of 1,000 sites would
    coincide. The prior mean follows from the estimated rates of all sites, and is not 0. A site without polls has the
    value of the prior mean plus 1.25 deviations, and a site that was polled early under a long period does not wait for
    its end when its new period is a short one. No gap is shorter than an eighth of the site's last: far from all polls
    a drawn function follows the prior, and without that bound little-known sites get the whole budget in turn. Of a
    site's polls the last 64 to 128 count. And the kernel is narrower: σ_f² = .1 and σ_n² = .02 instead of 1 and .1 (l²
    = 1 as in [B]). Earlier polls fade where that predicts better what polls find (`Forgetting`). [B]'s exact
    program is in pollerd/lab/experiments/gpoks.

    The variants "ts" and "ips" do worse here: a draw that is neither optimistic nor falling may hold a site back for a
    long gap. After 20 to 40 polls a page they reach .85 and .83 of the optimum on 8 pages, "gpr" and "ots+mono" .95, an
    even split .79.

    For n sites and m gaps in the index set a choice is one pass over all sites, O(n), but the first after a poll solves
    the knapsack again, O(n m log(n m)); from 2,048 sites on, in groups, that of √n sites and one pass over all. A poll
    costs the draw of its function (gpoks/regression.py), O(m) in the number of gaps, and its part of an O(n) count of
    all rates after every n / 16 polls. Only for the objective `changes` and sites of equal weight and cost: others
    raise InvalidValueError.
    No site waits longer than 16 times the gap of an even split.

    >>> import numpy as np
    >>> from pollerd.allocation import EvidenceBatch, create
    >>> policy = create("gpoks", budget=1.0, rng=np.random.default_rng(0))
    >>> policy.add(np.arange(2), weight=np.ones(2), cost=np.ones(2))
    >>> elapsed = np.array([40.0, 10.0])
    >>> polled = policy.select(elapsed, 100.0, eligible=np.ones(2, bool), k=1)
    >>> polled
    array([0])
    >>> policy.observe(polled, elapsed[polled], EvidenceBatch(np.array([True])), 100.0)
    >>> policy.rates().round(3)
    array([0.137, 0.347])
    """

    NAME = "gpoks"
    VERSION = 3
    _PERIODS_JUMP = True
    _VARYING = ("population",)

    def __init__(self, budget: float, settings: GpoksSettings, rng: np.random.Generator) -> None:
        super().__init__(budget)
        self._settings = settings
        self._bins = _DOUBLINGS * settings.points + 1
        self._forgetting = Forgetting(settings.forgetting)
        self._gap_counts = GapCounts(self._bins, self._forgetting.kept)
        self._groups = None if settings.groups == "none" else RateGroups()
        self._widths = [len(FIELDS), self._gap_counts.width, self._bins, 1, 0 if self._groups is None else COLUMNS]
        """Numbers of the parts of a site's row, see `_parts`."""
        self._FIELDS = sum(self._widths)  # type: ignore[misc]
        self._bit_generator, self._rng = own_generator(rng)
        self._poll_counts = PollCounts()
        self._population = np.zeros(self._bins)
        """Number of polled sites whose estimated 1 / rate falls in each bin."""
        self._polls = 0
        """Number of polls since the population was counted."""
        self._resize_rows(np.zeros((0, self._FIELDS)))
        self._every: NDArray[np.float64] | None = None
        """Periods of slots 0..n-1, for the budget `_every_for`; None: to be computed."""
        self._every_for = 0.0

    # --- rows ----------------------------------------------------------------------------------------------------

    def _resize_rows(self, rows: NDArray[np.float64]) -> None:
        """Sets rows and their views."""
        self._learned = rows
        self._poll_counts.rows, counts, self._held, last, groups = self._parts(rows)
        self._gap_counts.set_rows(counts)
        self._last_gap = last[:, 0]
        if self._groups is not None:
            self._groups.set_rows(groups)

    def _parts(self, rows: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Returns views of rows: poll counts; by gap, rising: polls and changes, function; the last gap, s; group."""
        return np.split(rows, np.cumsum(self._widths[:-1]), axis=1)

    def _grow(self, capacity: int) -> None:
        extra = np.zeros((capacity - len(self._learned), self._FIELDS))
        self._resize_rows(np.concatenate([self._learned, extra]))

    def _rows(self) -> NDArray[np.float64]:
        return self._learned

    def _check(self, rows: NDArray[np.float64]) -> None:
        polls, counts, held, last, groups = self._parts(rows)
        fewer, within = self._gap_counts.no_more_changes_than_polls(counts), self._gap_counts.within_memory(counts)
        all_sound(self.NAME, SOUND, self._poll_counts.sound(polls), polls)
        all_sound(self.NAME, "no more changes than polls at any gap", fewer, counts)
        all_sound(self.NAME, f"at most {MEMORY_POLLS} polls at all gaps", within, counts)
        all_sound(self.NAME, f"a function from 0 to {_MAX_VALUE:g}", (held >= 0) & (held <= _MAX_VALUE), held)
        all_sound(self.NAME, "a last gap >= 0 s", np.asarray((last >= 0) & np.isfinite(last)), last)
        if self._groups is not None:
            all_sound(self.NAME, SOUND_GROUPS, self._groups.sound(groups), groups)

    def _resized(self) -> None:
        self._every = None
        if self._groups is None:
            return
        if self._in_groups is None:
            self._groups.dissolve()
        else:
            self._groups.reset()

    @property
    def _in_groups(self) -> RateGroups | None:
        """The groups that the sites are in now; None: there are none."""
        enough = self._settings.groups == "rates" or self._slot_table.size >= GROUPED_FROM
        return self._groups if enough else None

    def _forget(self, slots: NDArray[np.int64]) -> None:
        super()._forget(slots)
        self._polls = self._slot_table.size  # the population is recounted at the next poll

    # --- the index set -------------------------------------------------------------------------------------------

    def _step(self) -> float:
        """Returns the seconds between two polls."""
        return self._settings.step or 1.0 / self.budget

    def _cycle(self) -> float:
        """Returns the seconds in which every site is polled once."""
        return self._step() * max(self._slot_table.size, 1)

    def _bin(self, gap: Any) -> Any:
        """Returns the nearest bins, int64, of gaps in s >= 0, any shape."""
        octave = np.log2(np.maximum(gap, _SHORTEST_S)) - np.log2(_SHORTEST_S)
        return np.clip(np.rint(octave * self._settings.points), 0, self._bins - 1).astype(np.int64)

    def _every_gap(self) -> NDArray[np.float64]:
        """Returns the gaps in s of all bins, ascending."""
        return np.asarray(_SHORTEST_S * 2.0 ** (np.arange(self._bins) / self._settings.points))

    def _window(self) -> tuple[int, int]:
        """Returns the first and last bin in use: of one step (all of the budget for one site), of the longest gap."""
        first = min(int(self._bin(self._step())), self._bins - 2)
        last = int(self._bin(self._cycle() * _LONGEST_CYCLES))
        return first, max(last, first + 1)

    def _gaps(self) -> NDArray[np.float64]:
        """Returns the gaps in s of the index set, float64[m], descending, so that amounts ascend."""
        first, last = self._window()
        return self._every_gap()[first : last + 1][::-1]

    def _prior(self, gaps: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the prior mean at gaps in s: the mean change probability of the population and an unpolled site."""
        rates = np.append(1.0 / self._every_gap(), rate_without_polls(self._cycle()))
        number = np.append(self._population, 1.0)
        return np.asarray(-np.expm1(-np.multiply.outer(gaps, rates)) @ number / number.sum())

    def _count(self) -> None:
        """Recounts the population."""
        n = self._slot_table.n
        polled = self._slot_table.used[:n] & (self._learned[:n, 0] > 0)
        rates = self._poll_counts.rates(n, self._cycle())[polled]
        self._population = np.bincount(self._bin(1.0 / rates), minlength=self._bins).astype(np.float64)
        self._polls = 0
        if self._in_groups is not None:
            self._in_groups.dissolve()

    def _belief(self, slots: NDArray[np.int64]) -> GaussianBelief:
        """Returns the posterior of slots int64[k], at `_gaps`, as it forgets now."""
        return self._posterior(*self._gap_counts.of(slots, self._forgetting.chosen))

    def _posterior(self, counts: NDArray[np.float64], sums: NDArray[np.float64]) -> GaussianBelief:
        """Returns the posterior after polls and changes float64[k, bins]; polls beyond its ends count at its ends."""
        first, last = self._window()
        index = _index(last - first + 1, self._settings.points)
        counts, sums = (_folded(of_gaps, first, last)[:, ::-1] for of_gaps in (counts, sums))
        return believe(index, counts, sums, self._prior(self._gaps()))

    # --- choosing ------------------------------------------------------------------------------------------------

    def _periods(self) -> NDArray[np.float64]:
        if self._every is None or self._every_for != self.budget:
            self._every, self._every_for = self._split(), self.budget
        return self._every

    def _split(self) -> NDArray[np.float64]:
        """Runs DET-KS on the current functions; every site gets at least the smallest amount, as [B] starts from ε."""
        slots = np.flatnonzero(self._slot_table.used)
        every = np.full(self._slot_table.n, np.inf)
        if len(slots):
            steps = np.minimum(self._step() / self._gaps(), 1.0)
            groups = self._in_groups
            chosen = self._amounts(slots, steps) if groups is None else self._grouped_amounts(groups, slots, steps)
            every[slots] = self._step() * chosen.sum() / chosen
        return every

    def _amounts(self, slots: NDArray[np.int64], steps: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the amounts of all sites, slots int64[k], by one knapsack: float64[k]; steps float64[m] to choose."""
        taken = water_filling(self._values(slots)[None, :, 1:], np.diff(steps), 1.0 - len(slots) * float(steps[0]))[0]
        chosen = steps[np.minimum(taken, self._most_steps(slots))]  # what no site may take is shared out by `_split`
        unknown = self._learned[slots, 0] == 0
        if unknown.any():  # the last step may be one of many
            chosen[unknown] = chosen[unknown].mean()
        return np.asarray(chosen)

    def _grouped_amounts(
        self, groups: RateGroups, slots: NDArray[np.int64], steps: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Returns the amounts like `_amounts`, by knapsacks in two levels."""
        n = self._slot_table.n
        if self._every_for != self.budget:
            groups.reset()
        rates = np.where(self._learned[:n, 0] > 0, self._poll_counts.rates(n, self._cycle()), np.nan)
        return groups.amounts(slots, rates[slots], self._values, steps)

    def _values(self, slots: NDArray[np.int64]) -> NDArray[np.float64]:
        """Returns the value of each amount to slots int64[k], float64[k, m]; -1 where a site may not take it."""
        gaps, (first, last) = self._gaps(), self._window()
        values = self._held[slots, first : last + 1][:, ::-1]
        values[self._learned[slots, 0] == 0] = _DEVIATIONS_WITHOUT_POLLS * _KERNEL.signal**0.5 + self._prior(gaps)
        return np.where(np.arange(len(gaps)) > self._most_steps(slots)[:, None], -1.0, values)

    def _most_steps(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns how many steps slots int64[k] may take up from the longest gap, int64[k]."""
        first, last = self._window()
        shortest = self._bin(self._last_gap[slots]) - _DOUBLINGS_A_POLL * self._settings.points
        shortest = np.where(self._learned[slots, 0] > 0, shortest, first)
        return np.asarray(last - np.clip(shortest, first, last))

    # --- learning ------------------------------------------------------------------------------------------------

    def _learn(self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], changed: NDArray[np.bool_]) -> None:
        polled = np.unique(slots)
        first = self._learned[polled, 0] == 0
        self._poll_counts.note(slots, elapsed, changed)
        self._note_gaps(slots, self._bin(elapsed), changed)
        self._last_gap[slots] = elapsed
        self._polls += len(slots)
        if self._polls * _UPDATES_PER_CYCLE >= self._slot_table.size:
            self._count()
        self._draw(polled)
        if self._in_groups is not None:
            self._in_groups.polled(polled, first)
        self._every = None

    def _note_gaps(self, slots: NDArray[np.int64], bins: NDArray[np.int64], changed: NDArray[np.bool_]) -> None:
        """Counts polls by gap; if forgetting is learned, scores each candidate by what it expected of them."""
        if not self._forgetting.is_learned:
            self._gap_counts.note(slots, bins, changed)
            return
        for rows in rounds(slots):
            belief = self._posterior(*self._gap_counts.of_all(slots[rows]))
            mean = self._mean_at(belief, np.repeat(bins[rows], len(self._forgetting.kept)))
            self._forgetting.score(mean.reshape(len(rows), -1), changed[rows])
            self._gap_counts.note(slots[rows], bins[rows], changed[rows])

    def _mean_at(self, belief: GaussianBelief, bins: NDArray[np.int64]) -> NDArray[np.float64]:
        """Returns the posterior mean of each row at its gap's bin, int64[k]: float64[k]."""
        first, last = self._window()
        return np.asarray(belief.mean[np.arange(len(bins)), last - np.clip(bins, first, last)])

    def _draw(self, slots: NDArray[np.int64]) -> None:
        """Draws new functions for slots int64[k], constant beyond the index set; values below 0 become 0."""
        first, last = self._window()
        drawn = np.maximum(value_functions(self._belief(slots), self._settings.variant, self._rng), 0.0)[:, ::-1]
        within = np.clip(np.arange(self._bins), first, last) - first
        self._held[slots] = drawn[:, within]

    def rates(self) -> NDArray[np.float64]:
        n = self._slot_table.n
        return np.where(self._slot_table.used[:n], self._poll_counts.rates(n, self._cycle()), np.nan)

    def change_probability(self, slots: NDArray[np.int64], elapsed: NDArray[np.float64]) -> NDArray[np.float64]:
        slots = self._slot_table.known(slots)
        return np.clip(self._mean_at(self._belief(slots), self._bin(np.nan_to_num(elapsed, posinf=np.inf))), 0.0, 1.0)

    # --- storage -------------------------------------------------------------------------------------------------

    def _shared(self) -> dict[str, NDArray[Any]]:
        form = np.array([VARIANTS.index(self._settings.variant), self._settings.points])
        shared: dict[str, NDArray[Any]] = {
            "form": form,
            "population": np.append(self._population, self._polls),
            "random": dump_rng(self._bit_generator),
        }
        return shared | ({"forgetting": self._forgetting.log_evidence} if self._forgetting.is_learned else {})

    def _take_shared(self, kept: dict[str, NDArray[Any]]) -> None:
        form, population = self._shared()["form"], kept["population"]
        if not np.array_equal(kept["form"], form):
            raise InvalidValueError("variant and points of the state", f"{form}", kept["form"])
        if len(population) != self._bins + 1 or not (population >= 0).all():
            raise InvalidValueError("shared_state", f"a population of {self._bins} numbers >= 0", population)
        self._population, self._polls = population[:-1], int(population[-1])
        load_rng(self._bit_generator, kept["random"])
        if self._forgetting.is_learned:
            self._forgetting.take(kept["forgetting"])


@lru_cache(maxsize=64)
def _index(size: int, points: int) -> IndexSet:
    """Returns the index set of `size` points, `points` of them per doubling of the gap; in decades, rising amounts."""
    return index_set(np.arange(size) * (np.log10(2.0) / points), _KERNEL)


def _folded(rows: NDArray[np.float64], first: int, last: int) -> NDArray[np.float64]:
    """Returns columns first..last of rows float64[k, bins], with those before and beyond added to the ends."""
    inside = rows[:, first : last + 1].copy()
    inside[:, 0] += rows[:, :first].sum(1)
    inside[:, -1] += rows[:, last + 1 :].sum(1)
    return inside
