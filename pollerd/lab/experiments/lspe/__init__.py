"""[D]: learning thresholds on the four sources of [E]."""

from pollerd.lab.experiments.lspe.four_sources import FourSources

EXPERIMENTS = (FourSources(),)
