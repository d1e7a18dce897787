"""The web of a Zipf ranking with its true change process and real gaps, and a run of one policy in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.contract import Allocator
from pollerd.allocation.registered import DEFAULT_DEADLINE_S
from pollerd.allocation.registry import create
from pollerd.errors import InvalidValueError
from pollerd.lab.environments.changes import ZipfChanges
from pollerd.lab.environments.driving import STEP_S, Record, drive
from pollerd.lab.environments.zipf import Zipf


@dataclass(frozen=True)
class Policy:
    """An allocator by name, with its objective and parameters; told_rates: it gets the true rates (`rates=`).

    deadline: s, its default, for the objective `deadline`.

    Raises InvalidValueError if rates are among its parameters, too.
    """

    allocator: str
    objective: str = "changes"
    told_rates: bool = False
    parameters: tuple[tuple[str, Any], ...] = ()
    deadline: float = DEFAULT_DEADLINE_S

    def __post_init__(self) -> None:
        if self.told_rates and "rates" in dict(self.parameters):
            raise InvalidValueError("rates", "left out where the true rates are told", dict(self.parameters)["rates"])

    def made(self, step: float, rng: np.random.Generator, rates: NDArray[np.float64]) -> Allocator:
        """Creates the allocator for one poll per step of `step` s; rates float64[n]: true rates (1/s) by slot."""
        told: dict[str, Any] = {"rates": rates} if self.told_rates else {}
        told.update(self.parameters)
        return create(
            self.allocator, budget=1.0 / step, objective=self.objective, rng=rng, deadline=self.deadline, **told
        )


def run_web(
    zipf: Zipf,
    policy: Policy,
    polls: int,
    seed: np.random.SeedSequence,
    *,
    noise: float = 0.0,
    half_life: NDArray[np.float64] | None = None,
) -> Record:
    """Runs one policy in the web of `zipf`, one poll per step of `STEP_S` seconds; noise and half_life as in `drive`.

    The web's changes, the allocator's draws and the noise have separate random streams from `seed`: another policy with
    the same seed gets the same web. A policy with true rates gets those of step 0.
    """
    web, own, noisy = streams(seed)
    changes = ZipfChanges(zipf, web)
    allocator = policy.made(STEP_S, own, changes.rates() / STEP_S)
    return drive(allocator, changes, polls, noise=noise, rng=noisy, half_life=half_life)


def streams(seed: np.random.SeedSequence) -> list[np.random.Generator]:
    """Returns three generators: for the world, for the allocator, and for noise and half-lives.

    The same ones at every call, unlike `seed.spawn`.
    """
    children = [np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, child)) for child in range(3)]
    return [np.random.default_rng(child) for child in children]
