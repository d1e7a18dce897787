"""`pollerd simulate`: runs allocators in a simulated world, and reports shares of the optimum."""

from __future__ import annotations

import enum
import json
import math
import os
import tempfile
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from pollerd.allocation import registry
from pollerd.allocation.registered import DEFAULT_DEADLINE_S, OBJECTIVES, Objective
from pollerd.cli.output import showing_progress
from pollerd.errors import InvalidValueError, refusal, unknown_name
from pollerd.lab.environments.histories import read_history
from pollerd.lab.environments.web import Policy
from pollerd.lab.environments.worlds import HistoryWorld, KnapsackWorld, Web, World
from pollerd.lab.environments.zipf import Order, Zipf
from pollerd.lab.experiments.report import number, table
from pollerd.lab.experiments.results import Results
from pollerd.lab.experiments.runner import conduct
from pollerd.lab.experiments.simulation import Simulation
from pollerd.texts import N_, _

_MAX_STEPS, _MAX_RUNS = 100_000_000, 1_000_000


class EnvironmentKind(enum.StrEnum):
    """Environment of the simulation."""

    WEB = "web"
    KNAPSACK = "knapsack"
    HISTORY = "history"


_RANKING = ("pages", "alpha", "beta", "order", "swaps", "switch_every")
_UNKNOWN_TO: dict[EnvironmentKind, tuple[str, ...]] = {
    EnvironmentKind.WEB: (),
    EnvironmentKind.KNAPSACK: ("half_lives", "switch_every"),
    EnvironmentKind.HISTORY: ("half_lives", *_RANKING),
}
"""Options without effect in that environment."""
_DEFAULT_ALLOCATOR = {
    EnvironmentKind.WEB: "whittle",
    EnvironmentKind.KNAPSACK: "htraa",
    EnvironmentKind.HISTORY: "whittle",
}
"""Whittle's index does not hold a mix, which the knapsack requires."""


def simulate(
    context: typer.Context,
    world: Annotated[
        EnvironmentKind,
        typer.Argument(
            help="web: true changes and real gaps; knapsack: feedback from "
            "the mix itself; history: real changes from a file."
        ),
    ],
    file: Annotated[Path | None, typer.Argument(help="For history: CSV of page,time in seconds.")] = None,
    allocator: Annotated[
        list[str] | None,
        typer.Option(help="Policy to compare (repeatable). Default: whittle, in the knapsack htraa."),
    ] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="NAME=VALUE, a parameter of the allocators.")] = (
        None
    ),
    told_rates: Annotated[bool, typer.Option(help="Give proportional and optimal the true rates.")] = True,
    objective: Annotated[
        str, typer.Option(help="changes, freshness, delay, deadline, or in the web interest.")
    ] = "changes",
    half_lives: Annotated[tuple[float, float], typer.Option(help="For interest, s: the shortest, the longest.")] = (
        60.0,
        259_200.0,
    ),
    deadline: Annotated[float, typer.Option(help="For deadline: s within which a change counts.")] = DEFAULT_DEADLINE_S,
    pages: Annotated[int, typer.Option(help="Pages.")] = 512,
    alpha: Annotated[float, typer.Option(help="Change probability per step of the first page: p = α / k^β.")] = 0.3,
    beta: Annotated[float, typer.Option(help="How steeply it falls.")] = 1.5,
    order: Annotated[str, typer.Option(help="sorted or shuffled.")] = "shuffled",
    swaps: Annotated[int, typer.Option(help="Neighbour swaps after the order is laid.")] = 0,
    switch_every: Annotated[int, typer.Option(help="Polls after which two neighbours in rank change places.")] = 0,
    noise: Annotated[float, typer.Option(help="web: chance that feedback is reversed; knapsack: its width.")] = 0.0,
    steps: Annotated[int, typer.Option(help="Polls, one a step.", min=1, max=_MAX_STEPS)] = 20_000,
    runs: Annotated[int, typer.Option(help="Runs, each with another web.", min=1, max=_MAX_RUNS)] = 4,
    seed: Annotated[int, typer.Option(help="Other numbers draw other webs.", min=0)] = 0,
    jobs: Annotated[int, typer.Option(help="Processes; 0: one for each core.", min=0)] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines instead of a table.")] = False,
) -> None:
    """Compare policies on a simulated web. The results are printed by chunks of polls.

    Figures are shares of the clairvoyant optimum; ± is the standard error over the runs. All allocators meet the same
    webs.
    """
    if (world is EnvironmentKind.HISTORY) == (file is None):
        raise refusal("FILE", _("`simulate history` needs a file; web and knapsack take none"))
    _check_known(context, world, objective)
    zipf, scored = Zipf(pages, alpha, beta, _order(order), swaps, switch_every), _objective(objective)
    tried_in: World
    if file is not None:
        tried_in = HistoryWorld(read_history(file), steps, scored, noise, deadline)
    elif world is EnvironmentKind.WEB:
        tried_in = Web(zipf, scored, noise, half_lives, deadline)
    else:
        tried_in = KnapsackWorld(zipf, noise)
    parameters = _settings(settings or [])
    names = allocator or [_DEFAULT_ALLOCATOR[world]]
    policies = {name: _policy(name, objective, parameters, told_rates, deadline) for name in names}
    _check_taken(parameters, policies)
    simulation = Simulation(tried_in, policies, steps, runs, seed)
    with (
        tempfile.TemporaryDirectory(prefix="pollerd-simulate-") as folder,
        showing_progress("simulate") as report_progress,
    ):
        results = conduct(simulation, "quick", Path(folder), jobs or os.cpu_count() or 1, report_progress)
    _print(results, runs, as_json)


def _check_known(context: typer.Context, world: EnvironmentKind, objective: str) -> None:
    """Raises InvalidValueError for a given option that would have no effect."""
    without = dict.fromkeys(_UNKNOWN_TO[world], _("cannot be used with {world}", world=world))
    if objective != "interest":
        without.setdefault("half_lives", _("needs --objective interest"))
    if objective != "deadline":
        without.setdefault("deadline", _("needs --objective deadline"))
    for name, sentence in without.items():
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise refusal(f"--{name.replace('_', '-')}", sentence, context.params[name])


def _order(text: str) -> Order:
    if text == "sorted":
        return "sorted"
    if text == "shuffled":
        return "shuffled"
    raise InvalidValueError("order", _("sorted or shuffled"), text)


def _objective(text: str) -> Objective:
    if text not in OBJECTIVES:
        raise InvalidValueError("objective", _("one of {objectives}", objectives=", ".join(OBJECTIVES)), text)
    return cast("Objective", text)


def _policy(name: str, objective: str, parameters: dict[str, Any], told_rates: bool, deadline: float) -> Policy:
    """Returns the allocator with those of the given parameters that it accepts."""
    if name not in registry.names():
        raise unknown_name("allocator", N_("policy"), name, registry.names())
    taken = registry.parameters(name)
    used = tuple(sorted((key, value) for key, value in parameters.items() if key in taken))
    return Policy(name, objective, told_rates and "rates" in taken, used, deadline)


def _check_taken(parameters: dict[str, Any], policies: dict[str, Policy]) -> None:
    """Raises InvalidValueError for a parameter that no allocator accepts."""
    taken = {key for name in policies for key in registry.parameters(name)}
    for key in parameters:
        if key not in taken:
            raise unknown_name("set", N_("parameter"), key, sorted(taken))


def _settings(texts: list[str]) -> dict[str, Any]:
    parameters: dict[str, Any] = {}
    for text in texts:
        name, value = _setting(text)
        if name in parameters:
            raise InvalidValueError("set", _("given once for {name}", name=name), text)
        parameters[name] = value
    return parameters


def _setting(text: str) -> tuple[str, Any]:
    """Parses "phase=500" into ("phase", 500): a number, true or false if it reads as one, else the text."""
    name, equals, value = text.partition("=")
    if not equals:
        raise InvalidValueError("set", "NAME=VALUE", text)
    try:
        return name, json.loads(value)
    except ValueError:  # not JSON, or an integer of thousands of digits
        return name, value


def _print(results: Results, runs: int, as_json: bool) -> None:
    """Prints a table, or JSON lines with null for undefined values: a share of nothing, an error of one run."""
    if not as_json:
        rows = [[row, *(_figure(results, row, column) for column in results.columns)] for row in results.rows]
        typer.echo(table(("allocator", *results.columns), rows))
        return
    for row in results.rows:
        estimates = [results.estimates[row, column] for column in results.columns]
        line = {
            "allocator": row,
            "polls": results.columns,
            "share": [_or_none(each.value) for each in estimates],
            "standard_error": [_or_none(each.error) for each in estimates],
            "runs": runs,
        }
        typer.echo(json.dumps(line, allow_nan=False))


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value


def _figure(results: Results, row: str, column: str) -> str:
    estimate = results.estimates[row, column]
    return number(estimate.value) + (f" ± {number(estimate.error)}" if estimate.error > 0 else "")
