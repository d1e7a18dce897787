"""The objective `interest` for sites that show only their newest M items: a poll collects what is still there.

[D] and [E] call M_i the number of epochs after which an item is gone; a feed drops an item when M newer ones have come.
Items come at rate λ, lose their interest at rate μ and are worth 1 when new. The k-th newest has an age A_k of the law
Gamma(k, λ), so a poll after a gap τ collects (docs/papers/ephemeral.md)

    R(τ) = Σ_{k<=M} E[e^{-μ A_k}; A_k <= τ] = ∫_0^τ λ e^{-μ a} Q(M, λ a) da
         = (λ/μ) [(1 - e^{-μτ}) Q(M, λτ) + P(M, λτ) - ρ^M P(M, (λ + μ) τ)],    ρ = λ / (λ + μ)

with P and Q the regularised incomplete gamma functions: an item of age a is still there if fewer than M came after it.
R' = λ e^{-μτ} Q(M, λτ) falls, so R is concave and every site has one best period for each price of a poll, which rises
with the price: the sites are indexable, and the index is

    R(τ) - τ R'(τ) = (λ/μ) [g(μτ) Q(M, λτ) + P(M, λτ) - ρ^M P(M, (λ + μ) τ)]

It rises from 0 to R(∞) = (λ/μ)(1 - ρ^M). For M = ∞ both are those of `core.index`; for μ = 0 the index is
M P(M + 1, λτ), and R the expected number of items, at most M. All terms are positive: nothing cancels but P - ρ^M P,
whose precision is relative to P.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.core.index import g
from pollerd.allocation.core.objectives.incomplete_gamma import incomplete_gamma, log_gamma

Array = NDArray[np.float64]
Values = Array | np.floating | float


class _Terms(NamedTuple):
    """Parts of both formulas: λ/μ, Q(M, λτ), and P(M, λτ) - ρ^M P(M, (λ + μ) τ)."""

    amplitude: Array
    kept: Array
    displaced: Array


def finite_index(gap: Values, rates: Values, decay: Values, items: Values) -> Array:
    """Returns the index under `interest` for weight and cost 1, of broadcastable shapes.

    gap τ in s >= 0; rates λ >= 0 and decay μ > 0 in 1/s; items M >= 1, inf: all stay.
    """
    amplitude, kept, displaced = _terms(gap, rates, decay, items)
    return np.asarray(amplitude * (g(np.multiply(decay, gap)) * kept + displaced))


def finite_value(gap: Values, rates: Values, decay: Values, items: Values) -> Array:
    """Returns what a poll after the gap collects for weight 1, of broadcastable shapes; arguments as above."""
    amplitude, kept, displaced = _terms(gap, rates, decay, items)
    return np.asarray(amplitude * (-np.expm1(-np.multiply(decay, gap)) * kept + displaced))


def most_collected(rates: Values, decay: Values, items: Values) -> Array:
    """Returns the limit of index and value for long gaps, (λ/μ)(1 - ρ^M), of broadcastable shapes."""
    rates, decay, items = (np.asarray(x, np.float64) for x in (rates, decay, items))
    with np.errstate(divide="ignore", invalid="ignore"):
        fading = -items * np.log1p(decay / rates)  # M log ρ
        return np.where(rates > 0, rates / decay * -np.expm1(fading), 0.0)


@dataclass(frozen=True, slots=True)
class IndexAt:
    """The index of m feeds at a gap each, float64[m]."""

    index: Array
    missing: Array
    """The limit less the index, (λ/μ) [(1 + μτ) e^{-μτ} Q(M, λτ) - ρ^M Q(M, (λ + μ) τ)]: precise where it is small."""
    slope: Array
    """How fast the index rises, -τ R'' = λ τ e^{-μτ} [μ Q(M, λτ) + λ p(M - 1; λτ)] in 1/s, p: the Poisson law."""


def index_at(gap: Array, rates: Array, decay: Array, items: Array) -> IndexAt:
    """Returns the index for weight and cost 1 with its slope, float64[m] each; all > 0, items >= 1 and finite."""
    mean, fading, amplitude = rates * gap, decay * gap, rates / decay
    came, kept = incomplete_gamma(items, mean)
    both_came, both_kept = incomplete_gamma(items, mean + fading)
    value_left = np.exp(-items * np.log1p(1.0 / amplitude))
    left = np.exp(-fading)
    return IndexAt(
        amplitude * (g(fading) * kept + np.maximum(came - value_left * both_came, 0.0)),
        amplitude * np.maximum((1.0 + fading) * left * kept - value_left * both_kept, 0.0),
        mean * left * (decay * kept + rates * np.exp((items - 1.0) * np.log(mean) - mean - log_gamma(items))),
    )


def _terms(gap: Values, rates: Values, decay: Values, items: Values) -> _Terms:
    gap, rates, decay, items = np.broadcast_arrays(*(np.asarray(x, np.float64) for x in (gap, rates, decay, items)))
    kept, displaced = np.ones(gap.shape), np.zeros(gap.shape)
    limited = np.isfinite(items) & (rates > 0)
    some_gap, some_rates, some_decay, m = gap[limited], rates[limited], decay[limited], items[limited]
    came, kept[limited] = incomplete_gamma(m, some_rates * some_gap)
    there = np.zeros(len(m))
    possible = came > 0
    # e^{M log ρ} P(M, (λ + μ) τ) = ∫ e^{-μ s} dP(M, λ s) <= P(M, λτ)
    value_left = np.exp(-m[possible] * np.log1p(some_decay[possible] / some_rates[possible]))
    both = (some_rates + some_decay)[possible] * some_gap[possible]
    there[possible] = value_left * incomplete_gamma(m[possible], both)[0]
    displaced[limited] = np.maximum(came - there, 0.0)
    return _Terms(rates / decay, kept, displaced)
