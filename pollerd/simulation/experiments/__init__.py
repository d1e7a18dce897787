"""The papers' tables and figures, and ours: run, compared with what was printed, drawn (`pollerd reproduce`)."""

from pollerd.simulation.experiments.experiment import Cell, Claim, Experiment, PublishedValue, RunOutcome, Size, cell

__all__ = ["Cell", "Claim", "Experiment", "PublishedValue", "RunOutcome", "Size", "cell"]
