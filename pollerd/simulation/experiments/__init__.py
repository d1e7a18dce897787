"""Tables and figures of the papers, and our own: run, compared with printed numbers, drawn (`pollerd reproduce`)."""

from pollerd.simulation.experiments.experiment import Cell, Claim, Experiment, PublishedValue, RunOutcome, Size, cell

__all__ = ["Cell", "Claim", "Experiment", "PublishedValue", "RunOutcome", "Size", "cell"]
