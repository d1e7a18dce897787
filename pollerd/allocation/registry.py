"""The allocators by name, and how each is created from a budget, an objective and parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from pollerd.allocation.automata.htraa import Htraa, HtraaSettings
from pollerd.allocation.automata.lakg import Lakg, LakgSettings
from pollerd.allocation.bandits import BANDITS, MixtureBandit, MixtureSettings, Ucb1Raw
from pollerd.allocation.baselines import Estimator, Optimal, Proportional, Uniform
from pollerd.allocation.contract import Allocator
from pollerd.allocation.gpoks.gpoks import Gpoks, GpoksSettings
from pollerd.allocation.lspe.lspe import Lspe
from pollerd.allocation.lspe.sources import LspeSettings
from pollerd.allocation.registered import DEFAULT_DEADLINE_S, OBJECTIVES
from pollerd.allocation.slots import one_of, positive
from pollerd.allocation.whittle.whittle import Whittle, WhittleSettings
from pollerd.errors import InvalidValueError


def _only_changes(name: str, objective: str) -> None:
    if objective != "changes":
        raise InvalidValueError("objective", f"changes, the only one that {name} is defined for", objective)


def _uniform(budget: float, objective: str, rng: np.random.Generator) -> Allocator:
    return Uniform(budget)


def _whittle(
    budget: float, objective: str, rng: np.random.Generator, *, deadline: float, **parameters: Any
) -> Allocator:
    return Whittle(budget, objective, WhittleSettings(**parameters), deadline)


def _htraa(budget: float, objective: str, rng: np.random.Generator, **parameters: Any) -> Allocator:
    _only_changes("htraa", objective)
    return Htraa(budget, HtraaSettings(**parameters), rng)


def _lakg(budget: float, objective: str, rng: np.random.Generator, **parameters: Any) -> Allocator:
    _only_changes("lakg", objective)
    return Lakg(budget, LakgSettings(**parameters))


def _estimator(budget: float, objective: str, rng: np.random.Generator, **parameters: Any) -> Allocator:
    _only_changes("estimator", objective)
    return Estimator(budget, **parameters)


def _proportional(budget: float, objective: str, rng: np.random.Generator, **parameters: Any) -> Allocator:
    _only_changes("proportional", objective)
    return Proportional(budget, **parameters)


def _optimal(
    budget: float, objective: str, rng: np.random.Generator, *, deadline: float, **parameters: Any
) -> Allocator:
    return Optimal(budget, objective, deadline=deadline, **parameters)


def _gpoks(budget: float, objective: str, rng: np.random.Generator, **parameters: Any) -> Allocator:
    _only_changes("gpoks", objective)
    return Gpoks(budget, GpoksSettings(**parameters), rng)


def _mixture_bandit(bandit: type[MixtureBandit]) -> Callable[..., Allocator]:
    def make(budget: float, objective: str, rng: np.random.Generator, **parameters: Any) -> Allocator:
        _only_changes(bandit.NAME, objective)
        return bandit(budget, MixtureSettings(**parameters), rng)

    return make


def _ucb1_raw(budget: float, objective: str, rng: np.random.Generator) -> Allocator:
    _only_changes("ucb1-raw", objective)
    return Ucb1Raw(budget)


def _lspe(budget: float, objective: str, rng: np.random.Generator, **parameters: Any) -> Allocator:
    return Lspe(budget, objective, LspeSettings(**parameters), rng)


_MAKERS: dict[str, tuple[Callable[..., Allocator], tuple[str, ...]]] = {
    "whittle": (_whittle, tuple(inspect.signature(WhittleSettings).parameters)),
    "htraa": (_htraa, tuple(inspect.signature(HtraaSettings).parameters)),
    "lspe": (_lspe, tuple(inspect.signature(LspeSettings).parameters)),
    "lakg": (_lakg, tuple(inspect.signature(LakgSettings).parameters)),
    "gpoks": (_gpoks, tuple(inspect.signature(GpoksSettings).parameters)),
    "estimator": (_estimator, ("phase", "step")),
    "proportional": (_proportional, ("rates", "step")),
    "optimal": (_optimal, ("rates", "step")),
    "ucb1-raw": (_ucb1_raw, ()),
    **{bandit.NAME: (_mixture_bandit(bandit), ("points",)) for bandit in BANDITS},
    "uniform": (_uniform, ()),
}


_WITH_DEADLINE = ("whittle", "optimal")
"""Allocators that the default deadline is passed to: `uniform` has the same shares whatever is aimed at."""


def names() -> tuple[str, ...]:
    """Returns the names of the registered allocators, the default first."""
    return tuple(_MAKERS)


def parameters(name: str) -> tuple[str, ...]:
    """Returns the parameters that `create` takes for an allocator besides budget, objective and rng."""
    return _MAKERS[name][1]


def create(
    name: str,
    *,
    budget: float,
    objective: str = "changes",
    rng: np.random.Generator,
    deadline: float = DEFAULT_DEADLINE_S,
    **parameters: Any,
) -> Allocator:
    """Creates an allocator without sites.

    name one of `names()`; budget cost/s > 0; objective one of `OBJECTIVES`;
    deadline: s > 0, within which a change should be found, of sites without their own, for the objective `deadline`;
    parameters by allocator, all with defaults. Raises InvalidValueError for an unknown name, objective or parameter,
    and for values of the wrong type or out of range.
    """
    one_of("allocator", name, _MAKERS)
    one_of("objective", objective, OBJECTIVES)
    if not isinstance(rng, np.random.Generator):
        raise InvalidValueError("rng", "a numpy.random.Generator", rng)
    make, allowed = _MAKERS[name]
    for parameter in parameters:
        if parameter not in allowed:
            raise InvalidValueError(f"parameter of {name}", f"one of {', '.join(allowed) or 'none'}", parameter)
    deadline = positive("deadline", deadline)
    if name in _WITH_DEADLINE:
        parameters = {**parameters, "deadline": deadline}
    return make(budget, objective, rng, **parameters)
