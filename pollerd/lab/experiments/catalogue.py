"""The experiments by name. A folder of experiments is one line in `_FOLDERS`."""

from __future__ import annotations

from importlib import import_module

from pollerd.errors import InvalidValueError
from pollerd.lab.experiments.experiment import Experiment

_FOLDERS: tuple[str, ...] = (
    "htraa",
    "gpoks",
    "ephemeral",
    "lspe",
    "focused_crawler",
    "ours_web",
    "ours_objectives",
    "ours_nodes",
)
"""Folders beside this file, in the order of papers; each exports `EXPERIMENTS`, a tuple."""


def experiments() -> dict[str, Experiment]:
    """Returns all experiments by name, in the order of papers."""
    by_name: dict[str, Experiment] = {}
    for folder in _FOLDERS:
        for experiment in import_module(f"pollerd.lab.experiments.{folder}").EXPERIMENTS:
            if experiment.name in by_name:
                raise ValueError(f"two experiments are named {experiment.name}")
            by_name[experiment.name] = experiment
    return by_name


def experiment(name: str) -> Experiment:
    """Returns the experiment with that name; raises InvalidValueError if there is none."""
    known = experiments()
    if name not in known:
        raise InvalidValueError("experiment", "one of those of `pollerd reproduce --list`", name)
    return known[name]
