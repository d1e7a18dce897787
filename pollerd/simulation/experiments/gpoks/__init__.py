"""[B]: Glimsdal, efficient Gaussian process based optimistic knapsack sampling; all tables of its section 8.

gpoks-many-pages and gpoks-switching are our own: the same scheme as an allocator, on as many pages as a daemon has, and
where pages change places.
"""

from pollerd.simulation.experiments.gpoks.eight_pages import EIGHT_PAGES
from pollerd.simulation.experiments.gpoks.many_pages import ManyPages
from pollerd.simulation.experiments.gpoks.more_bandits import MORE_BANDITS
from pollerd.simulation.experiments.gpoks.numbers import NUMBERS
from pollerd.simulation.experiments.gpoks.running_time import RunningTime
from pollerd.simulation.experiments.gpoks.switching import GpoksSwitching
from pollerd.simulation.experiments.gpoks.two_pages import TWO_PAGES

EXPERIMENTS = (RunningTime(), *TWO_PAGES, *EIGHT_PAGES, NUMBERS, MORE_BANDITS, ManyPages(), GpoksSwitching())
