"""Tables and figures of the papers, and our own: run, compared with printed numbers, drawn (`pollerd reproduce`)."""

from pollerd.lab.experiments.experiment import Cell, Claim, Experiment, PublishedValue, RunOutcome, Size, cell

__all__ = ["Cell", "Claim", "Experiment", "PublishedValue", "RunOutcome", "Size", "cell"]
