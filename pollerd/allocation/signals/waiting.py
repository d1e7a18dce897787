"""Changes that wait to be found: their expected number given the signals, and the index under `delay`, for known rates.

With recall r and false rate ν, changes that nobody announced come at α = (1 - r) λ, signals at γ = r λ + ν, and each is
true with probability q = r λ / γ. So the expected number N of waiting changes grows at α and by q with each signal, and
after a poll it begins at 0. It costs N a second until the next poll. Polls at level N are worth their price θ if

    θ C / w = G(N) = N Ψ(N) - E[∫ N dt until N is reached] = ∫ Ψ(x) dx from 0 to N

with Ψ(x) the expected time until x is reached. Up to q no signal has come before: Ψ = (1 - e^(-γ x / α)) / γ. Beyond, Ψ
is (x + r q / 2) / λ, where r q / 2 is the mean overshoot: exact where all or no changes are announced.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.signals.pairs import SignalReading, Window, read
from pollerd.allocation.signals.quality import due_level

Array = NDArray[np.float64]
_LITTLE = 1e-3
_LEAST = 1e-300


@dataclass(frozen=True, slots=True)
class Pending:
    """Expected changes that wait, of k pages at K rates.

    unannounced, announced float64[k, K]: numbers; recall float64[k, 1]: share of changes that a source announces;
    precision float64[k, K]: probability that a signal is true.
    """

    unannounced: Array
    announced: Array
    recall: Array
    precision: Array


def pending(of: list[Window], quiet: Array, rates: Array, gap: Array) -> Pending:
    """Returns what waits, given what sources say of gap float64[k] s; quiet: λτ, rates: 1/s, float64[k, K].

    As in `pairs.read`, only the signals of the source with most weight count.
    """
    safe = np.maximum(gap[:, None], _LEAST)
    shares = [np.minimum(window.covered / safe, 1.0) for window in of]
    return pending_of(of, quiet, rates, shares, [window.number for window in of])


def pending_of(of: list[Window], quiet: Array, rates: Array, told: list[Array], worth: list[Array]) -> Pending:
    """Returns what waits, as `pending`, where changes count as much as they are worth now.

    quiet, rates: as there, quiet the worth of all changes since the polls; told: share of it of which each source has
    told; worth: of each source's signals if all were true; float64[k, 1] each.
    """
    missed = np.ones((len(quiet), 1))
    for window, share in zip(of, told, strict=True):
        missed = missed * (1.0 - window.recall * share)
    announced, most, precision, best = (np.zeros_like(quiet) for _ in range(4))
    for window, number in zip(of, worth, strict=True):
        silent = np.ones((len(quiet), 1))
        for other in of:
            if other is not window:
                silent = silent * np.where(other.number > 0, 1.0, 1.0 - other.recall)
        weight, _before = window.weights(np.broadcast_to(rates, quiet.shape), silent)
        true = -np.expm1(-weight)
        heavier = window.number * weight > most
        announced = np.where(heavier, number * true, announced)
        precision = np.where(heavier, true, precision)
        most, best = np.maximum(most, window.number * weight), np.maximum(best, true)
    return Pending(quiet * missed, announced, 1.0 - missed, np.where(most > 0, precision, best))


def delay_gain(number: Array, rates: Array, recall: Array, precision: Array) -> Array:
    """Returns G(N) in s, of N waiting changes, for shapes that broadcast; rates in 1/s."""
    alpha = np.maximum((1.0 - recall) * rates, _LEAST)
    gamma = recall * rates / np.maximum(precision, _LEAST)
    first = np.minimum(number, precision)
    plain = number * number / (2.0 * np.maximum(rates, _LEAST))
    beyond = (number * number - first * first + recall * precision * (number - first)) / (
        2.0 * np.maximum(rates, _LEAST)
    )
    return np.where((recall > 0) & (precision > 0), _until_first(first, alpha, gamma) + beyond, plain)


def _until_first(number: Array, alpha: Array, gamma: Array) -> Array:
    """Returns G(N) up to the first signal: (N - (α / γ)(1 - e^(-γ N / α))) / γ."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        z = np.minimum(gamma * number / alpha, 1e300)
        little = number * number / (2.0 * alpha) * (1.0 - np.minimum(z, _LITTLE) / 3.0)
        full = number / gamma * (1.0 + np.expm1(-z) / z)
    return np.where(z < _LITTLE, little, full)


def gain_of_reading(
    before: Array,
    window: Array,
    rate: Array,
    quality: tuple[Array | float, Array | float],
    waiting_value: Callable[[Array], Array],
) -> Array:
    """Returns the expected gain, float64[k] >= 0, of learning for each page whether its source named it.

    before: expected number of waiting changes at the last information; window: s since then; rate: changes per s;
    quality: recall and false rate; waiting_value: of not having to poll yet, convex in the number of waiting changes.
    """
    recall, false_rate = quality
    now = before + rate * window
    silent = np.exp(-(recall * rate + false_rate) * window)
    if_silent = before + (1.0 - recall) * rate * window
    if_named = np.maximum((now - silent * if_silent) / np.maximum(1.0 - silent, 1e-12), 0.0)
    gain = silent * waiting_value(if_silent) + (1.0 - silent) * waiting_value(if_named)
    return np.asarray(np.maximum(gain - waiting_value(now), 0.0))


def delay_waiting_value(number: Array, rate: Array, weight: Array, price: Array) -> Array:
    """Returns the value of not having to poll yet under `delay`: w (N* - N)² / (2 λ) below N* = sqrt(2 θ C λ / w).

    number: of waiting changes; rate: 1/s; price: θ C of a poll.
    """
    level = np.sqrt(2.0 * price * rate / np.maximum(weight, _LEAST))
    return np.asarray(weight * np.maximum(level - number, 0.0) ** 2 / (2.0 * np.maximum(rate, _LEAST)))


def deadline_waiting_value(number: Array, rate: Array, weight: Array, price: Array, deadline: Array) -> Array:
    """Returns the value of not having to poll yet under `deadline`: the rest of the deadline's share of the price.

    number: of waiting changes, λ times the age of the oldest; price: θ C. A page that is not worth its polls has none.
    """
    within = np.maximum(rate * deadline, _LEAST)
    return np.where(weight * within > price, price * np.maximum(1.0 - number / within, 0.0), 0.0)


# Value of the items that wait to be found under `interest`, for known rates: state, index and what a reading gains.
#
# An item is worth ξ e^(-μ a) if it is found at age a. With recall r and false rate ν, items that nobody announced come
# at α = (1 - r) λ, signals at γ = r λ + ν, and each is true with probability q = r λ / γ. So the expected value S of
# what waits, in units of ξ, is
#
#     S = (α / μ) (1 - e^(-μ τ)) + q Σ e^(-μ a_k)
#
# over the ages a_k of the signals: it grows by α - μ S a second and by q with each signal. If polls come at level S and
# S(t) is the state on the way there, a poll is worth the price θ C = μ E[∫ (S - S(t)) dt] (by Dynkin's formula, from
# the expected gain λ - μ S of waiting at the level). Two cases are exact, with A = λ / μ:
#
# - every signal leads to a poll: up to α / μ the level is reached after τ or at the first signal: an integral of
#   one exponential; above it no level is reached without a signal, and θ C = S μ / (γ + μ);
# - many signals before a poll, or none at all: S(t) is as good as its mean, and θ C = A (y + (1 - y) ln(1 - y)), where
#   y = S / A. With y = 1 - e^(-μ τ) this is the index A g(μ τ) without signals.
#
# The index is the larger of both. In the second the signals' noise and the mean overshoot r q / 2 of a level are
# allowed for (`_many_signals`). It is within a quarter of the index of the exact single-page problem, which
# tests/allocation/test_item_value.py solves numerically.

_NOISE = 0.85
"""Share of the stationary standard deviation of S by which the logarithm is rounded off; fitted to exact indices."""


def covered_shares(of: list[Window], gap: Array, decay: Array) -> list[Array]:
    """Returns of each window the share of the value of unseen items of which its source has told, float64[k, 1].

    gap: s since the polls, decay: μ in 1/s, float64[k]. The newest items, of which nothing was told yet, count most.
    """
    whole = np.maximum(-np.expm1(-decay * gap), _LEAST)[:, None]
    mu, since = decay[:, None], gap[:, None]
    return [(np.exp(-mu * (since - window.covered)) - np.exp(-mu * since)) / whole for window in of]


def item_gain(value: Array, rates: Array, decay: Array, recall: Array, precision: Array) -> Array:
    """Returns the index for weight and cost 1 of waiting items worth `value`, for shapes that broadcast.

    rates, decay: 1/s.
    """
    amplitude = rates / decay
    few = _each_signal(value, rates, decay, recall, precision)
    return np.maximum(few, _many_signals(value, amplitude, recall, precision))


def _each_signal(value: Array, rates: Array, decay: Array, recall: Array, precision: Array) -> Array:
    """Returns the index where every signal leads to a poll."""
    alpha = np.maximum((1.0 - recall) * rates, _LEAST)
    gamma = np.where(precision > 0, recall * rates / np.maximum(precision, _LEAST), 0.0)
    share = np.minimum(value * decay / alpha, 1.0)
    rest = np.maximum(1.0 - share, _LEAST)
    log, ratio = np.log(rest), gamma / decay
    by_signals = np.where(gamma > 0, -np.expm1(ratio * log) / np.maximum(gamma, _LEAST), -log / decay)
    full = alpha * (-np.expm1((1.0 + ratio) * log) / (gamma + decay) - rest * by_signals)
    little = alpha * share * share / (2.0 * decay)
    before = np.where((1.0 + ratio) * share < _LITTLE, little, full)
    return np.where(value * decay < alpha, before, value * decay / (gamma + decay))


def _many_signals(value: Array, amplitude: Array, recall: Array, precision: Array) -> Array:
    """Returns the index where S(t) is as good as its mean: the integral of -ln(1 - y), at most S.

    The logarithm is rounded off by the noise, of which the stationary variance is r q A / 2, relative to A.
    """
    amplitude = np.maximum(amplitude, _LEAST)
    overshoot = recall * precision / 2.0
    noise = np.maximum(_NOISE * np.sqrt(overshoot / amplitude), 1e-12)
    reached, first = (value + overshoot) / amplitude, overshoot / amplitude
    rise = amplitude * (_log_integral(1.0 - reached, noise) - _log_integral(1.0 - first, noise))
    return np.where(value < _LITTLE * amplitude, 0.0, np.clip(rise, 0.0, value))  # the difference has no digits left


def _log_integral(u: Array, noise: Array) -> Array:
    """Returns an integral of ln((u + √(u² + 4 noise²)) / 2), which is ln u far above the noise and finite below 0."""
    return u * np.log(noise) + u * np.arcsinh(u / (2.0 * noise)) - np.sqrt(u * u + 4.0 * noise * noise)


def item_waiting_value(value: Array, rate: Array, decay: Array, weight: Array, price: Array) -> Array:
    """Returns the value, float64[k] >= 0, of not having to poll yet, without further signals; convex in `value`.

    value: S for weight 1; rate, decay: 1/s; price: θ C of a poll. With the state S* at which the page is due: weight
    (S* - S - (A - S*) ln((A - S) / (A - S*))) below S*. A page whose A is worth no poll is due at S* = θ C / weight.
    """
    amplitude = np.maximum(rate / decay, _LEAST)
    scaled = price / np.maximum(weight, _LEAST)
    rest = amplitude * due_level(scaled / amplitude)
    level = np.where(rest > 0, amplitude - rest, np.maximum(scaled, amplitude))
    left = np.maximum(level - value, 0.0)
    kept = left - rest * np.log1p(left / np.maximum(rest, _LEAST))
    return np.asarray(weight * np.maximum(kept, 0.0))


def gain_of_reading_items(
    value: Array,
    window: Array,
    rate: Array,
    decay: Array,
    quality: tuple[Array | float, Array | float],
    weight: Array,
    price: Array,
) -> Array:
    """Returns the expected gain, float64[k] >= 0, of learning for each page whether its source named it.

    value: S at the last information; window: s since then; rate, decay: 1/s; quality: recall and false rate; price: θ C
    of a page's poll.
    """
    recall, false_rate = quality
    fresh = rate / decay * -np.expm1(-decay * window)
    now = value * np.exp(-decay * window) + fresh
    silent = np.exp(-(recall * rate + false_rate) * window)
    if_silent = now - recall * fresh
    if_named = np.maximum((now - silent * if_silent) / np.maximum(1.0 - silent, 1e-12), 0.0)
    not_yet = [item_waiting_value(one, rate, decay, weight, price) for one in (if_silent, if_named, now)]
    return np.maximum(silent * not_yet[0] + (1.0 - silent) * not_yet[1] - not_yet[2], 0.0)


# Evidence of signals besides the polls that they led to: on the rate, and on the chance of a change.

_STEP = 0.02
"""Step of log λ by which slopes are taken."""


@dataclass(frozen=True)
class SignalEvidence:
    """Signals before m of the k polls of a batch, whose pages have sources.

    rows int64[m], their places in the batch, ascending · size: k · windows: of the m pages · say float64[m] · gap
    float64[m] s.

    For known quality the evidence is exact (docs/signals.md): of a poll that finds a change it is e^(n b - r λ τ)
    (1 - e^-L) in place of 1 - e^-λτ, whatever made the poll come when it did; of one that finds none, the same. It
    counts to the power of the say: what a source says before it has proven itself hardly moves the belief.
    """

    rows: NDArray[np.int64]
    size: int
    windows: tuple[Window, ...]
    say: Array
    gap: Array

    def take(self, rows: NDArray[np.int64] | slice) -> SignalEvidence:
        """Selects polls of the batch, in ascending order."""
        place = np.full(self.size, -1)
        place[self.rows] = np.arange(len(self.rows))
        chosen = place[rows]
        here = np.flatnonzero(chosen >= 0)
        some = chosen[here]
        windows = tuple(window.take(some) for window in self.windows)
        return replace(self, rows=here, size=len(chosen), windows=windows, say=self.say[some], gap=self.gap[some])

    def reading(self, rates: Array) -> SignalReading:
        """Returns the reading at rates float64[m, J] or [1, J], per s."""
        return read(self.windows, self.say, self.gap[:, None] * rates, rates, self.gap)

    def log_likelihood(self, rates: Array, evidence: EvidenceBatch) -> Array:
        """Returns what signals add to the log-likelihood of the batch's polls, float64[m, J], at rates [m or 1, J].

        Where the number of changes is known signals add nothing. Where the age of the last change is known the newest
        signal is taken to announce it, and the others to have come before.
        """
        reading, say = self.reading(rates), self.say[:, None]
        age, counted = evidence.age[self.rows], evidence.count[self.rows] >= 0
        changed = evidence.changed[self.rows] & ~counted
        with np.errstate(divide="ignore", invalid="ignore"):
            found = say * reading.evidence + _log(self._unchanged(reading)) - _log(np.exp(-reading.quiet))
            before = 1.0 - np.clip(age / self.gap, 0.0, 1.0)[:, None]
        number = np.maximum(sum((window.number for window in self.windows), np.zeros((len(say), 1))), 1.0)
        dated = say * (reading.weight * (1.0 - 1.0 / number) - reading.silence * before + reading.either_way)
        out = np.where(np.isnan(age)[:, None], found, dated)
        # what says the same of pages that changed and of others is said of both
        return np.where(counted[:, None], 0.0, np.where(changed[:, None], out, say * reading.either_way))

    def score(self, rates: Array, evidence: EvidenceBatch) -> tuple[Array, Array]:
        """Returns slope by log λ, and information >= 0, of `log_likelihood` at one rate for each, float64[m]."""
        low, here, high = self.log_likelihood(rates[:, None] * np.exp([-_STEP, 0.0, _STEP]), evidence).T
        return (high - low) / (2 * _STEP), np.maximum(2 * here - low - high, 0.0) / _STEP**2

    def expectation(self, rates: Array) -> tuple[Array, Array]:
        """Returns weights of rates [m or 1, J], of which the largest is 1, and probabilities of no change, [m, J]."""
        reading = self.reading(rates)
        evidence = self.say[:, None] * reading.evidence
        return np.exp(evidence - evidence.max(1, keepdims=True)), self._unchanged(reading)

    def gain(self, rows: Array, rates: Array, evidence: EvidenceBatch) -> Array:
        """Returns the logarithm, float64[m], of the factor by which signals raise the probability of what was found.

        Under beliefs rows float64[m, J], at rates [m or 1, J], apart from what is the same at all rates.
        """
        changed = evidence.found[self.rows, None]
        quiet = np.exp(-self.gap[:, None] * rates)
        plain = rows * np.where(changed, 1.0 - quiet, quiet)
        more = self.log_likelihood(rates, evidence)
        return np.asarray(np.log((plain * np.exp(more) + _LEAST).sum(1) / (plain + _LEAST).sum(1)))

    def _unchanged(self, reading: SignalReading) -> Array:
        say = self.say[:, None]
        return np.asarray(say * np.exp(-reading.level) + (1.0 - say) * np.exp(-reading.quiet))


def _log(unchanged: Array) -> Array:
    """Returns the logarithm of the probability of a change."""
    return np.log(np.maximum(1.0 - unchanged, _LEAST))
