"""Quality of sources of signals, learned from the polls of their pages: recall, false rate, and trust."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.evidence import PUSHED, SourceQuality
from pollerd.errors import InvalidValueError

Array = NDArray[np.float64]

START_LOG_ODDS, _REST_LOG_ODDS = -4.6, -3.0
"""Log odds that a source predicts better than none: of a new one, and of one of which all evidence is old. A new one is
believed less, because what it says, or does not, changes the order in which pages are polled for the first time."""
MAX_LOG_ODDS = 8.0
_KEEP_ODDS = 0.995
_KEEP = 1.0 - 1.0 / 3000.0
"""Factors by which earlier polls count less at each poll."""
_KEEP_DISTRUSTED = 1.0 - 1.0 / 200.0
"""The same for sums of a source that is believed less than a new one: what it was like once is no guide."""
_KEEP_JOINT = 1.0 - 1.0 / 1000.0
"""The same for the joint distribution of recall and false signals of a pushed source."""
_KEEP_MEAN = 0.98
_KEEP_GAP = 0.8
_SAME_READING = 1 / 32
"""A reading that follows another within this part of their mean gap (at first of a uniform cycle), such as a poll that
proves its change, is not one more."""
_BATCH_SIGNALS = 3.0
"""Signals at once, in the geometric mean, of a pushed source that is taken to deliver in batches, and not as changes
happen."""
START_POLLS = 4.0
"""A new source knows as much of its host's others, or else of all, as that many polls teach."""
DELAYS = np.r_[0.0, 0.5 ** np.arange(6.0, 0.0, -1.0)]
"""Mean delays, in uniform cycles, that undated signals of a pushed source may have: evenly from 0 to twice that."""
_START_DELAY = np.r_[0.0, np.full(len(DELAYS) - 1, -5.0)]
"""Logarithms of the chances of these delays for a new source, apart from what is the same for all."""
_KEEP_DELAY = 0.995
_SPREADS = np.array([2.5, 2.0])
_CENTRES = np.array([[1.0, 0.0], [1.0, math.log(0.5)]])
"""Standard deviations, for a new pushed source, of the log odds of its recall and the logarithm of its false signals,
and their means for each hypothesis: mostly honest; one false signal a uniform cycle, or half a one a change, so that
there are about as many signals as changes, and its pages seem neither faster nor slower while it is unknown."""
_POINTS = math.sqrt(3.0) * np.array([(x, y) for x in (-1.0, 0.0, 1.0) for y in (-1.0, 0.0, 1.0)])
_WEIGHTS = np.outer([1 / 6, 4 / 6, 1 / 6], [1 / 6, 4 / 6, 1 / 6]).ravel()
"""Points of a quadrature for two standard normal variables, exact up to the fifth moments, and their weights."""
_SPREAD_CHANGE = (0.3, 2.0)
"""The polls that are learned from together change a variance by such a factor at most: a quadrature of three points
knows nothing between them."""
_LEAST_RECALL = 1e-9
"""A recall is kept this far from 0 and 1."""
_START_ODDS, _MAX_ODDS = -2.0, 3.0
"""Log odds of the second hypothesis for a new source, and within which they stay: what pages are believed to be like
follows the likelier one, and so would speak for it for ever."""
_SILENT_GAPS = 3.0
"""A pushed source silent for this many times its longest gap is no longer taken to say that nothing changed."""


@dataclass
class LearnedSource:
    """One source: its pages and the sums from which its quality is learned.

    slots int64[k], in the caller's order · polled_as: slot whose polls fetch it, PUSHED or ELSEWHERE ·
    announced, unannounced: changes, the numbers of the Beta distribution of its recall · false: signals without a
    change · true: signals of one · exposure: s · log_odds: of its say ·
    polls: with forgetting · signals: number received · delay_sum, late_sum, delays: s and number of dated signals,
    with forgetting; late: of changes that it could have told of before · fetched_at: epoch s, -inf: never · fetches:
    number · longest_gap: s between signs of life · learned_cycle: s, of the prior · host: number of its host, -1:
    unknown · mean_evidence: log Bayes factor of the last polls, not stored, as those of the pages are not · mean_gap:
    s between the last readings, 0: unknown, not stored · prior_polls: of other sources, that its prior is worth, with
    forgetting, not stored · newest: latest date of the last signals, epoch s, -inf: unknown, not stored. Of a
    pushed source, not stored either: delivered_at, delivered_before: when the last delivery began and the one before,
    epoch s, -inf: none · delivery_gap, s, and delivery_size: arithmetic and geometric means of the last deliveries, 0:
    unknown · delivered: signals of the last delivery · delay_chances float64[len(DELAYS)]: of its mean delay, if it is
    pushed and gives no dates · joint: recall and false signals, if it is pushed.
    """

    slots: NDArray[np.int64]
    polled_as: int
    learned_cycle: float
    host: int = -1
    announced: float = 1.0
    unannounced: float = 1.0
    false: float = 1.0
    exposure: float = 0.0
    log_odds: float = START_LOG_ODDS
    polls: float = 0.0
    signals: float = 0.0
    delay_sum: float = 0.0
    late_sum: float = 0.0
    delays: float = 0.0
    fetched_at: float = -np.inf
    fetches: float = 0.0
    longest_gap: float = 0.0
    mean_evidence: float = 0.0
    mean_gap: float = 0.0
    prior_polls: float = 0.0
    newest: float = -np.inf
    delivered_at: float = -np.inf
    delivered_before: float = -np.inf
    delivery_gap: float = 0.0
    delivery_size: float = 0.0
    delivered: float = 0.0
    true: float = 0.0
    delay_chances: Array = field(default_factory=lambda: _chances(_START_DELAY))
    joint: JointQuality = field(default_factory=lambda: JointQuality())

    @property
    def recall(self) -> float:
        if self.polled_as == PUSHED:
            return self.joint.recall
        return self.announced / (self.announced + self.unannounced)

    @property
    def false_rate(self) -> float:
        """Signals per second and page without a change, > 0: no signal is believed fully; a mean of its pages."""
        return self.false / (self.exposure + self.learned_cycle)

    @property
    def false_signals(self) -> tuple[float, float]:
        """False signals per second of a page that changes once a uniform cycle, and the power of λ they grow with."""
        if self.polled_as == PUSHED:
            return self.joint.false_signals / self.learned_cycle, self.joint.power
        return self.false_rate, 0.0

    @property
    def precision(self) -> float:
        """Share of its signals that told of a change, 0 to 1."""
        return min(max((self.true + 0.5) / (self.true + self.false), 0.0), 1.0)

    @property
    def say(self) -> float:
        """How far it is believed, 0 to 1."""
        return float(say_at(np.array(self.log_odds)))

    @property
    def late(self) -> float:
        """Mean s by which it tells of a change later than it could have, >= 0: less than one signal's without any.

        Of a pushed source that gives no dates as far as polls tell; 0 for a new one.
        """
        if self.learns_delay:
            return self.learned_cycle * max(float((self.delay_chances - _chances(_START_DELAY)) @ DELAYS), 0.0)
        return self.late_sum / (self.delays + 1.0)

    @property
    def learns_delay(self) -> bool:
        """Whether its delay is learned from polls: it is pushed, as changes happen, and gives no dates."""
        return self.polled_as == PUSHED and not self.delays and not self.batch_gap

    def open_time(self, gap: float) -> Array:
        """Returns the s of the last `gap` s of which it has not told yet, on average, by its DELAYS."""
        longest = np.maximum(2.0 * self.learned_cycle * DELAYS, _LEAST)
        late = np.minimum(gap, longest)
        return np.asarray(late - late**2 / (2.0 * longest))

    def on_the_way(self, age: Array) -> Array:
        """Returns the share of announced changes of which it has not told after `age` s, any shape, by its DELAYS."""
        longest = 2.0 * self.learned_cycle * DELAYS
        with np.errstate(divide="ignore", invalid="ignore"):
            late = np.clip(1.0 - age[..., None] / longest, 0.0, 1.0)
        return np.where(longest > 0.0, late, 0.0)

    def unread(self, now: float) -> float:
        """Returns the s before `now` of which its silence says nothing, >= 0: since it was read, and its delay.

        A pushed source that is alive is taken as read at this moment, or if it delivers in batches at the last time
        when one was due.
        """
        if self.polled_as == PUSHED and now <= self.silent_from:
            return self.late + min(max(now - self.delivered_at, 0.0), self.batch_gap)
        return self.late + max(now - self.fetched_at, 0.0)

    @property
    def batch_gap(self) -> float:
        """Returns the usual s between batches of a pushed source; 0: it delivers as changes happen."""
        return self.delivery_gap if self.delivery_size >= _BATCH_SIGNALS else 0.0

    def reported_at(self, now: float) -> float:
        """Returns when it last reported changes before `now`, epoch s; -inf: never, or it reports each at once."""
        if self.polled_as != PUSHED:
            return self.fetched_at
        if not self.batch_gap:
            return -np.inf
        return self.delivered_before if self._is_same_delivery(now) else self.delivered_at

    def quiet_before(self, now: float) -> float:
        """Returns the s before `now` in which it named nothing, >= 0; 0: unknown."""
        at = self.fetched_at if self.polled_as != PUSHED else self.delivered_at
        if self.polled_as == PUSHED and self._is_same_delivery(now):
            at = self.delivered_before
        return now - at if np.isfinite(at) else 0.0

    def _is_same_delivery(self, now: float) -> bool:
        return now - self.delivered_at < _SAME_READING * (self.delivery_gap or self.learned_cycle)

    def _note_delivery(self, number: int, now: float) -> None:
        """Follows the rhythm of a pushed source, which delivered a number of signals at epoch s."""
        if self._is_same_delivery(now):
            self.delivered += number
            return
        if np.isfinite(self.delivered_at):
            gap, keep = now - self.delivered_at, _KEEP_GAP if self.delivery_gap else 0.0
            self.delivery_gap = keep * self.delivery_gap + (1.0 - keep) * gap
            # of a source that reports changes one by one a list written again now and then makes no batches
            self.delivery_size = self.delivery_size**keep * self.delivered ** (1.0 - keep)
        self.delivered_before, self.delivered_at, self.delivered = self.delivered_at, now, float(number)

    @property
    def silent_from(self) -> float:
        """Returns from when a pushed source is taken to be silent if it gives no sign of life, epoch s; inf: never."""
        if self.polled_as != PUSHED or not self.fetches or not self.longest_gap:
            return np.inf
        return self.fetched_at + _SILENT_GAPS * self.longest_gap

    def unnamed(self, number: float, covered: float) -> float:
        """Returns the share, 0 to 1, of `covered` s in which a list named nothing, given the number of its signals.

        Of a list that is read a signal says that there was a change since the reading before, or more: no change of
        that time was missed.
        """
        return max(1.0 - number * self.mean_gap / covered, 0.0) if covered > 0.0 else 1.0

    def learn(self, true: float, unsaid: float, signals: float, exposure: float, evidence: float) -> None:
        """Learns from one poll: expected announced and unannounced changes, signals, s covered, log Bayes factor.

        A list names a page once, however often it changed. What is learned of a pushed source goes by the likelihood of
        its polls (`learn_pushed`): polls that come only on signals share out changes for ever as the first guess does.
        """
        keep = _KEEP if self.log_odds >= START_LOG_ODDS else _KEEP_DISTRUSTED
        self.announced = 1.0 + keep * (self.announced - 1.0) + true
        self.unannounced = 1.0 + keep * (self.unannounced - 1.0) + unsaid * self.unnamed(signals, exposure)
        self.true = keep * self.true + true
        self.false = 1.0 + keep * (self.false - 1.0) + max(signals - true, 0.0)
        self.exposure = keep * self.exposure + exposure
        self.polls = keep * self.polls + 1.0
        self.prior_polls *= keep
        self.mean_evidence = _KEEP_MEAN * self.mean_evidence + (1.0 - _KEEP_MEAN) * evidence
        odds = _REST_LOG_ODDS + _KEEP_ODDS * (self.log_odds - _REST_LOG_ODDS) + evidence
        self.log_odds = min(max(odds, -MAX_LOG_ODDS), MAX_LOG_ODDS)

    def learn_pushed(self, log_chances: Array) -> None:
        """Learns from k polls of a pushed source, together: their log chances float64[k, 2, 9] at `joint.nodes`."""
        self.joint.learn(log_chances.sum(0), _KEEP_JOINT ** len(log_chances))

    def learn_delay(self, log_chances: Array) -> None:
        """Learns its delay from a poll of which these are the log chances, by DELAYS."""
        known = np.log(np.maximum(self.delay_chances, 1e-12))
        self.delay_chances = _chances(_START_DELAY + _KEEP_DELAY * (known - _START_DELAY) + log_chances)

    def received(self, number: int, dates: NDArray[np.float64], now: float) -> None:
        """Counts signals at epoch s, and the delays of those with dates, float64[m] epoch s, none after `now`."""
        self.signals += number
        if self.polled_as == PUSHED and number:
            self._note_delivery(number, now)
        keep = _KEEP ** len(dates)
        self.delay_sum = keep * self.delay_sum + float((now - dates).sum())
        could = now if self.polled_as == PUSHED else max(self.fetched_at, 0.0)
        self.late_sum = keep * self.late_sum + float(np.maximum(could - dates, 0.0).sum())
        self.delays = keep * self.delays + len(dates)

    def alive(self, now: float) -> None:
        """Notes that it was read, or gave a sign of life, at epoch s."""
        gap = now - self.fetched_at if self.fetches else np.inf
        self.fetched_at = max(self.fetched_at, now)
        if self.polled_as != PUSHED and gap < _SAME_READING * (self.mean_gap or self.learned_cycle):
            return
        self.fetches += 1.0
        if gap < np.inf:
            self.mean_gap = _KEEP_GAP * self.mean_gap + (1.0 - _KEEP_GAP) * gap if self.mean_gap else gap
            self.longest_gap = max(self.longest_gap, gap)

    def quality(self) -> SourceQuality:
        """Returns what was learned of it."""
        delay = self.delay_sum / self.delays if self.delays else np.nan
        return SourceQuality(
            recall=self.recall,
            precision=self.precision,
            false_rate=self.false_rate,
            delay=float(delay),
            say=self.say,
            polls=self.polls,
        )

    def learned(self) -> list[float]:
        """Returns what was learned, for storage: finite, and -1 as the time of a reading if there was none."""
        kept = replace(self, fetched_at=max(self.fetched_at, -1.0))
        return [float(getattr(kept, name)) for name in LEARNED] + [
            *self.delay_chances.tolist(),
            *self.joint.numbers(),
        ]

    def learn_again(self, numbers: list[float]) -> None:
        """Restores the output of `learned`, in which its prior is, too: it was worth so many polls at most."""
        for name, number in zip(LEARNED, numbers[: len(LEARNED)], strict=True):
            setattr(self, name, number)
        self.delay_chances = np.array(numbers[len(LEARNED) : -_JOINT])
        self.joint.restore(numbers[-_JOINT:])
        self.prior_polls = START_POLLS
        if self.fetched_at < 0:
            self.fetched_at = -np.inf


@dataclass
class JointQuality:
    """What is believed of a pushed source: recall and false signals, under two hypotheses on what the latter follow.

    They come at one rate for all pages, or in proportion to the changes of each. Of each hypothesis log odds of the
    recall and logarithm of the false signals, a uniform cycle or a change, have a joint normal distribution. The
    likelihood of polls moves it to the mean and covariance after them (assumed density filtering).

    known float64[2, 5]: what polls added to its precision (three numbers of a symmetric matrix) and to precision times
    mean (two), so that several sources' can be added, and old polls count less · odds: log odds of the second one.
    """

    known: Array = field(default_factory=lambda: np.zeros((2, 5)))
    odds: float = _START_ODDS

    def __post_init__(self) -> None:
        self._settle()

    def _settle(self) -> None:
        precision = np.diag(_SPREADS**-2.0) + self.known[:, [[0, 1], [1, 2]]]
        self._spread = np.linalg.inv(precision)
        self._mean = (self._spread @ (self.known[:, 3:] + _CENTRES * _SPREADS**-2.0)[:, :, None])[:, :, 0]
        self._root = np.linalg.cholesky(self._spread)
        at = self._mean[:, None] + _POINTS @ self._root.transpose(0, 2, 1)
        recall = np.clip(say_at(at[:, :, 0]), _LEAST_RECALL, 1.0 - _LEAST_RECALL)
        self.nodes = np.stack([recall, np.exp(at[:, :, 1])], axis=1)
        """Recall and false signals, a uniform cycle or a change, at the points of each hypothesis: float64[2, 2, 9]."""
        self.power = float(say_at(np.array(self.odds)))
        """Power of the rate of changes with which false signals grow, 0 to 1: the chance of the second hypothesis."""
        chances = np.array([1.0 - self.power, self.power])
        self.recall = float(chances @ (self.nodes[:, 0] @ _WEIGHTS))
        self.false_signals = float(np.exp(chances @ self._mean[:, 1]))
        """False signals in a uniform cycle of a page that changes once in it."""

    def learn(self, log_chances: Array, keep: float) -> None:
        """Learns from polls that had these log chances, float64[2, 9], at `nodes`; earlier ones count `keep` of it."""
        chances = _WEIGHTS * np.exp(log_chances - log_chances.max(1, keepdims=True))
        evidence = np.log(chances.sum(1)) + log_chances.max(1)
        chances /= chances.sum(1, keepdims=True)
        shift = chances @ _POINTS
        off = _POINTS - shift[:, None]
        left, axes = np.linalg.eigh(np.einsum("hk,hki,hkj->hij", chances, off, off))
        root = self._root @ axes * np.sqrt(np.clip(left, *_SPREAD_CHANGE))[:, None]
        mean = self._mean + (self._root @ shift[:, :, None])[:, :, 0]
        # never less sure than of a new one: what several sources gained is added for others
        more, axes = np.linalg.eigh(np.linalg.inv(root @ root.transpose(0, 2, 1)) - np.diag(_SPREADS**-2.0))
        gained = axes * np.maximum(more, 0.0)[:, None] @ axes.transpose(0, 2, 1)
        pulled = (gained @ mean[:, :, None])[:, :, 0] + (mean - _CENTRES) * _SPREADS**-2.0
        self.known = keep * np.column_stack([gained[:, 0, 0], gained[:, 0, 1], gained[:, 1, 1], pulled])
        odds = _START_ODDS + keep * (self.odds - _START_ODDS) + float(evidence[1] - evidence[0])
        self.odds = min(max(odds, -_MAX_ODDS), _MAX_ODDS)
        self._settle()

    def numbers(self) -> list[float]:
        """Returns what was learned, all 0 of a new one."""
        return [*self.known.ravel().tolist(), self.odds - _START_ODDS]

    def restore(self, numbers: list[float]) -> None:
        """Restores the output of `numbers`."""
        self.known = np.array(numbers[:-1], np.float64).reshape(2, 5)
        self.odds = min(max(_START_ODDS + float(numbers[-1]), -_MAX_ODDS), _MAX_ODDS)
        self._settle()


_JOINT = 11
"""Number of the numbers of a `JointQuality`."""


def _chances(logarithms: Array) -> Array:
    out = np.exp(logarithms - logarithms.max())
    return np.asarray(out / out.sum())


def say_at(log_odds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns how far is believed what has these log odds, 0 to 1, any shape."""
    return np.asarray(1.0 / (1.0 + np.exp(-log_odds)))


_DELIVERIES = ("delivered_at", "delivered_before", "delivery_gap", "delivery_size", "delivered")
_NOT_STORED = ("slots", "polled_as", "host", "mean_evidence", "mean_gap", "prior_polls", "newest", *_DELIVERIES)
LEARNED = tuple(one.name for one in fields(LearnedSource) if one.name not in (*_NOT_STORED, "delay_chances", "joint"))
"""Names of the numbers of a source that were learned and are stored; the chances of its delays follow them, then the
numbers of its `joint`."""
_STORED = len(LEARNED) + len(DELAYS) + _JOINT


def stored_quality(quality: NDArray[np.float64], sources: int) -> NDArray[np.float64]:
    """Returns the stored numbers of sources as float64[sources, len(LEARNED) + len(DELAYS) + _JOINT].

    Version 0.1 stored no number of true signals: it was that of announced changes. No delays were learned at first, and
    recall and false signals of pushed sources by counts, as those of lists are.

    Raises InvalidValueError for another number of numbers, or some that `LearnedSource.learned` cannot have given.
    """
    if quality.size == (len(LEARNED) - 1) * sources:
        table = quality.reshape(sources, -1)
        true = table[:, LEARNED.index("announced")] - 1.0
        quality = np.column_stack([table, np.maximum(true, 0.0)])
    if quality.size == len(LEARNED) * sources:
        delays = np.tile(_chances(_START_DELAY), (sources, 1))
        quality = np.column_stack([quality.reshape(sources, -1), delays])
    if quality.size == (_STORED - _JOINT) * sources:
        table = quality.reshape(sources, -1)
        quality = np.column_stack([table, _joint_of_counts(table)])
    if quality.size != _STORED * sources:
        allowed = f"signal_quality of {_STORED * sources} numbers"
        raise InvalidValueError("shared_state", allowed, f"{quality.size} numbers")
    table = quality.reshape(sources, _STORED)
    check_learned(table)
    return table


def _joint_of_counts(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the numbers of `JointQuality` that are worth as much as the counts of k sources, float64[k, _JOINT]."""
    announced, missed, false, exposure, cycle = (
        table[:, LEARNED.index(name)] for name in ("announced", "unannounced", "false", "exposure", "learned_cycle")
    )
    out = np.zeros((len(table), _JOINT))
    signals = false * cycle / (exposure + cycle), false / (announced + missed)
    for known, each, centre in zip((out[:, :5], out[:, 5:10]), signals, _CENTRES, strict=True):
        mean = np.log(np.column_stack([announced / missed, each]))
        precision = np.maximum(1.0 / np.column_stack([1.0 / announced + 1.0 / missed, 1.0 / false]), _SPREADS**-2.0)
        known[:, [0, 2]] = precision - _SPREADS**-2.0
        known[:, 3:] = precision * mean - centre * _SPREADS**-2.0
    return out


def check_learned(table: NDArray[np.float64]) -> None:
    """Raises InvalidValueError for numbers of k sources that `LearnedSource.learned` cannot have given.

    table: float64[k, len(LEARNED) + len(DELAYS) + _JOINT].
    """
    column = dict(zip(LEARNED, table.T[: len(LEARNED)], strict=True))
    delays, joint = table[:, len(LEARNED) : -_JOINT], table[:, -_JOINT:]
    odds = column.pop("log_odds")
    column.pop("fetched_at")
    least = np.stack([column.pop(name) for name in ("learned_cycle", "announced", "unannounced", "false")])
    rest = np.stack(list(column.values()))
    chances = (delays >= 0).all() and (np.abs(delays.sum(1) - 1.0) < 1e-6).all()
    precision = np.diag(_SPREADS**-2.0) + joint[:, :-1].reshape(-1, 2, 5)[:, :, [[0, 1], [1, 2]]]
    chances &= (np.linalg.eigvalsh(precision) > 0).all() and (np.abs(joint[:, -1] + _START_ODDS) <= _MAX_ODDS).all()
    sound = chances and (least > 0).all() and (rest >= 0).all() and (np.abs(odds) <= MAX_LOG_ODDS).all()
    if not sound:
        raise InvalidValueError("shared_state", "sources with sums of 0 or more", "others")


# Pooled quality: the quality that a new source starts with, from all others.

_START = {"announced": 1.0, "unannounced": 1.0, "false": 1.0, "exposure": 0.0, "true": 0.0}
"""Sums of a source of which nothing is known."""


@dataclass
class _Sums:
    """Sums of several sources, less those of which nothing is known, and of how many polls they are."""

    announced: float = 0.0
    unannounced: float = 0.0
    false: float = 0.0
    exposure: float = 0.0
    true: float = 0.0
    polls: float = 0.0
    joint: Array = field(default_factory=lambda: np.zeros(_JOINT))

    def include(self, of: LearnedSource) -> None:
        """Adds a source."""
        for name, start in _START.items():
            setattr(self, name, getattr(self, name) + getattr(of, name) - start)
        self.joint = self.joint + of.joint.numbers()
        # Its own prior is in its sums, too: else new sources would pass on more than was learned.
        self.polls += of.polls + of.prior_polls


class PooledQuality:
    """Sums of all sources and of those of each host, which are made when they are asked for."""

    def __init__(self) -> None:
        self._all: _Sums | None = None
        self._by_host: dict[int, _Sums] = {}

    def teach(self, new: LearnedSource, others: Iterable[LearnedSource]) -> None:
        """Has a new source start like the others of its host, or else like all; not as far as they are believed."""
        if self._all is None:
            self._all = _Sums()
            for of in others:
                self.include(of)
        sums = self._by_host.get(new.host, self._all)
        if sums.polls <= 0.0:
            return
        share = min(START_POLLS / sums.polls, 1.0)
        for name, start in _START.items():
            setattr(new, name, start + share * getattr(sums, name))
        new.joint.restore((share * sums.joint).tolist())
        new.prior_polls = share * sums.polls

    def include(self, of: LearnedSource) -> None:
        """Adds a source to the sums."""
        if self._all is None:
            return
        self._all.include(of)
        if of.host >= 0:
            self._by_host.setdefault(of.host, _Sums()).include(of)

    def clear(self) -> None:
        """Forgets the sums: sources have learned, or are others."""
        self._all = None
        self._by_host.clear()


# Formulas of noisy signals for known rates, recall and false rate (docs/signals.md).

_LEAST = 1e-300
_ROWS = np.r_[0.0, np.exp(np.linspace(-30.0, 0.0, 3000))]
"""Probabilities F at which the price of a due page is tabulated."""
_PRICES = 1.0 - _ROWS + _ROWS * np.log(np.maximum(_ROWS, _LEAST))


def due_level(price: Array) -> Array:
    """Returns F*, P(unchanged) at which a page is due: 1 - F* + F* ln F* = price; 0 for prices of 1 or more.

    price: of a poll, divided by the value of a change found, any shape, >= 0.
    """
    return np.where(price >= 1.0, 0.0, np.interp(-price, -_PRICES, _ROWS))


def waiting_value(unchanged: Array, due: Array, value: Array) -> Array:
    """Returns the value k(F) of not having to poll yet, >= 0; 0 where P(unchanged) is at most the level `due`."""
    fresh = unchanged > due
    safe = np.maximum(due, _LEAST)
    kept = unchanged - due - due * np.log(np.maximum(unchanged, safe) / safe)
    return np.where(fresh, value * kept, 0.0)


def fetch_gain(
    before: Array,
    window: Array,
    rate: Array,
    recall: Array | float,
    false_rate: Array | float,
    due: Array,
    value: Array,
) -> Array:
    """Returns the expected gain, float64[k] >= 0, of learning for each page whether its source named it.

    before: P(unchanged) at the last information; window: s since then; rate: changes per s; due: F*; value: of a
    change found.
    """
    now = before * np.exp(-rate * window)
    silent = np.exp(-(recall * rate + false_rate) * window)
    if_silent = before * np.exp(-(1.0 - recall) * rate * window)
    if_named = np.clip((now - silent * if_silent) / np.maximum(1.0 - silent, 1e-12), 0.0, 1.0)
    gain = silent * waiting_value(if_silent, due, value) + (1.0 - silent) * waiting_value(if_named, due, value)
    return np.asarray(np.maximum(gain - waiting_value(now, due, value), 0.0))
