"""Figures of an experiment as PNG and SVG. Imports matplotlib, only when there is something to draw."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pollerd.errors import ConfigError
from pollerd.lab.experiments.experiment import Experiment
from pollerd.lab.experiments.refusals import naming
from pollerd.lab.experiments.results import Results

_SIZE_INCHES = (8.0, 4.2)
_DOTS_AN_INCH = 150


def require_matplotlib() -> None:
    """Raises ConfigError, with installation instructions, if matplotlib is not installed."""
    if find_spec("matplotlib") is None:
        raise ConfigError(
            "figures need matplotlib: run `make reproduce`, or `pip install 'pollerd[experiments]'`, or leave the "
            "figures out with --no-figures"
        )


def write_figures(experiment: Experiment, results: Results, folder: Path) -> list[str]:
    """Draws all figures of the experiment into the folder; returns their names.

    Raises InvalidValueError if they cannot be written.
    """
    names = list(experiment.figures())
    if names:
        with naming(folder):
            folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            _write_one(experiment, results, folder, name)
    return names


def _write_one(experiment: Experiment, results: Results, folder: Path, name: str) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib.figure import Figure

    pairs = mpl.colormaps["tab20"].colors  # type: ignore[attr-defined]
    # strong colours first: many figures have more than ten curves
    twenty = mpl.cycler(color=[*pairs[::2], *pairs[1::2]])  # type: ignore[attr-defined]
    # Without a date and with fixed ids the same numbers give the same file.
    with mpl.rc_context({"svg.hashsalt": name, "svg.fonttype": "none", "axes.prop_cycle": twenty}):
        figure = Figure(figsize=_SIZE_INCHES, layout="constrained")
        axes: Any = figure.subplots()
        experiment.draw(name, results, axes)
        with naming(folder):
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
            figure.savefig(folder / f"{name}.png", dpi=_DOTS_AN_INCH)
