"""[B]: Glimsdal, efficient Gaussian process based optimistic knapsack sampling; all tables of its section 8.

gpoks-many-pages is our own: the same scheme as an allocator, on as many pages as a daemon has.
"""

from pollerd.simulation.experiments.gpoks.eight_pages import EIGHT_PAGES
from pollerd.simulation.experiments.gpoks.many_pages import ManyPages
from pollerd.simulation.experiments.gpoks.running_time import RunningTime
from pollerd.simulation.experiments.gpoks.two_pages import TWO_PAGES

EXPERIMENTS = (RunningTime(), *TWO_PAGES, *EIGHT_PAGES, ManyPages())
