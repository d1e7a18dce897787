"""[B]: Glimsdal, efficient Gaussian process based optimistic knapsack sampling; all tables of its section 8."""

from pollerd.simulation.experiments.gpoks.eight_pages import EIGHT_PAGES
from pollerd.simulation.experiments.gpoks.running_time import RunningTime
from pollerd.simulation.experiments.gpoks.two_pages import TWO_PAGES

EXPERIMENTS = (RunningTime(), *TWO_PAGES, *EIGHT_PAGES)
