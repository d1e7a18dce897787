"""The allocators by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from pollerd.allocation.contract import Allocator
from pollerd.allocation.htraa import Htraa, HtraaSettings
from pollerd.allocation.index import OBJECTIVES
from pollerd.allocation.uniform import Uniform
from pollerd.allocation.whittle import Whittle, WhittleSettings
from pollerd.errors import InvalidValueError


def _uniform(budget: float, objective: str, rng: np.random.Generator) -> Allocator:
    return Uniform(budget)


def _whittle(budget: float, objective: str, rng: np.random.Generator, **parameters: Any) -> Allocator:
    return Whittle(budget, objective, WhittleSettings(**parameters))


def _htraa(budget: float, objective: str, rng: np.random.Generator, **parameters: Any) -> Allocator:
    if objective != "changes":
        raise InvalidValueError("objective", "changes, the only one that htraa is defined for", objective)
    return Htraa(budget, HtraaSettings(**parameters), rng)


_MAKERS: dict[str, tuple[Callable[..., Allocator], tuple[str, ...]]] = {
    "whittle": (_whittle, tuple(inspect.signature(WhittleSettings).parameters)),
    "htraa": (_htraa, tuple(inspect.signature(HtraaSettings).parameters)),
    "uniform": (_uniform, ()),
}


def names() -> tuple[str, ...]:
    """The registered allocators, the default first."""
    return tuple(_MAKERS)


def create(
    name: str, *, budget: float, objective: str = "changes", rng: np.random.Generator, **parameters: Any
) -> Allocator:
    """A new allocator without sites.

    name one of `names()`; budget cost/s > 0; objective "changes", "freshness" or "interest"; parameters by
    allocator, all with defaults. Raises InvalidValueError for an unknown name, objective or parameter.
    """
    if name not in _MAKERS:
        raise InvalidValueError("allocator", f"one of {', '.join(_MAKERS)}", name)
    if objective not in OBJECTIVES:
        raise InvalidValueError("objective", f"one of {', '.join(OBJECTIVES)}", objective)
    make, allowed = _MAKERS[name]
    for given in parameters:
        if given not in allowed:
            raise InvalidValueError(f"parameter of {name}", f"one of {', '.join(allowed) or 'none'}", given)
    return make(budget, objective, rng, **parameters)
