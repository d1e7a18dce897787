"""Whittle index of ephemeral content at multiples of an epoch ([E] theorem 1).

Its limit for small epochs is `index.index`, `(A / C) g(rτ)`, with A = u* and r = μ. On the states that a polled site
visits, `x = u*(1 - α^η)`, both are the value of one more poll η epochs after the last one:

    γ = (u*/C) (1 - α^η (1 + η (1 - α)))        (A/C) g(μτ) = (u*/C) (1 - e^(-μτ) (1 + μτ)),  τ = ηT

and the discrete one is larger by at most `(u*/C) z e^(-z) μT / 2`, z = μτ, because `0 <= μT - (1 - α) <= (μT)²/2`.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.lspe.sources import Sources
from pollerd.errors import InvalidValueError

Beyond = Literal["infinite", "value", "printed"]
BEYOND: tuple[Beyond, ...] = ("infinite", "value", "printed")
"""Choices for the index of states >= u*."""

_LEAST = float(np.finfo(np.float64).tiny)


def whittle_index(state: NDArray[np.float64], sources: Sources, beyond: Beyond = "infinite") -> NDArray[np.float64]:
    """Returns γ(x) of states x >= 0, float64[..., n]: the price per unit of cost that makes polling and waiting equal.

        γ(x) = (1/C) [η(x) ((1 - α) x - u) + (1 - α^η(x)) u*],   η(x) = ⌈log_α(1 - x/u*)⌉

    [E] theorem 1, which writes the last term as `(1 - α^η)/(1 - α) u`. γ is continuous at the steps of η, so rounding
    there does no harm. Sites without arrivals have 0.

    From u* on, which a drawn state may reach ([E] 7) but the mean never does, the logarithm is undefined. beyond
    chooses the value there: "infinite", the formula's own limit above u* (poll at once); "printed", 0, as [E]'s log⁺
    makes η 0; "value", x/C, the solution of the subsidy problem there under the mean dynamics: polling gains x and then
    waits for ever, waiting lets x fall towards u*. Below u* they are equal.
    Raises InvalidValueError for another beyond.
    """
    if beyond not in BEYOND:
        raise InvalidValueError("beyond", f"one of {', '.join(BEYOND)}", beyond)
    ceiling = sources.ceiling
    missing = np.clip(1.0 - state / np.maximum(ceiling, _LEAST), _LEAST, 1.0)
    epochs = np.ceil(-np.log(missing) / (sources.decay * sources.epoch))
    gamma = epochs * ((1.0 - sources.retained) * state - sources.gain) + sources.after(epochs)
    full = {"infinite": np.full_like(gamma, np.inf), "value": state / sources.cost, "printed": np.zeros_like(gamma)}
    return np.where(ceiling <= 0, 0.0, np.where(state >= ceiling, full[beyond], gamma / sources.cost))


def order(state: NDArray[np.float64], sources: Sources, beyond: Beyond = "infinite") -> NDArray[np.int64]:
    """Returns all sites, int64[n], by index of states float64[n], largest first; +inf by x/C; ties: the lower site."""
    gamma = whittle_index(state, sources, beyond)
    tie = np.where(np.isposinf(gamma), state / sources.cost, 0.0)
    return np.lexsort((-tie, -gamma))
