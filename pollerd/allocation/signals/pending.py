"""Changes that wait to be found, for known rates: how many signals leave one to expect, and the index under `delay`.

With recall r and false rate ν, changes that nobody announced come at α = (1 - r) λ, signals at γ = r λ + ν, and each is
true with probability q = r λ / γ. So the expected number N of waiting changes grows at α and by q with each signal, and
after a poll it begins at 0. It costs N a second until the next poll. Polls at level N are worth their price θ if

    θ C / w = G(N) = N Ψ(N) - E[∫ N dt until N is reached] = ∫ Ψ(x) dx from 0 to N

with Ψ(x) the expected time until x is reached. Up to q no signal has come before: Ψ = (1 - e^(-γ x / α)) / γ. Beyond, Ψ
is (x + r q / 2) / λ, where r q / 2 is the mean overshoot: exact where all or no changes are announced.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.signals.formulas import signal_weight
from pollerd.allocation.signals.reading import Window

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

    As in `reading.read`, only the signals of the source with most weight count.
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
        weight = signal_weight(rates, window.recall * silent, window.false_rate)
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
