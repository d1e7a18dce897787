"""[D]: learning thresholds on the four sources of [E]."""

from pollerd.simulation.experiments.lspe.four_sources import FourSources

EXPERIMENTS = (FourSources(),)
