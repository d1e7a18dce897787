"""Value of the items that wait to be found under `interest`, for known rates: state, index and what a reading gains.

An item is worth ξ e^(-μ a) if it is found at age a. With recall r and false rate ν, items that nobody announced come at
α = (1 - r) λ, signals at γ = r λ + ν, and each is true with probability q = r λ / γ. So the expected value S of what
waits, in units of ξ, is

    S = (α / μ) (1 - e^(-μ τ)) + q Σ e^(-μ a_k)

over the ages a_k of the signals: it grows by α - μ S a second and by q with each signal. If polls come at level S and
S(t) is the state on the way there, a poll is worth the price θ C = μ E[∫ (S - S(t)) dt] (by Dynkin's formula, from the
expected gain λ - μ S of waiting at the level). Two cases are exact, with A = λ / μ:

- every signal leads to a poll: up to α / μ the level is reached after τ or at the first signal, which is an integral of
  one exponential; above it no level is reached without a signal, and θ C = S μ / (γ + μ);
- many signals before a poll, or none at all: S(t) is as good as its mean, and θ C = A (y + (1 - y) ln(1 - y)), y = S /
  A. With y = 1 - e^(-μ τ) this is the index A g(μ τ) without signals.

The index is the larger of both. In the second the signals' noise and the mean overshoot r q / 2 of a level are allowed
for (`_many_signals`). It is within a quarter of the index of the exact single-page problem, which
tests/allocation/test_item_value.py solves numerically.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.signals.formulas import due_level
from pollerd.allocation.signals.reading import Window

Array = NDArray[np.float64]
_LEAST = 1e-300
_LITTLE = 1e-3
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
