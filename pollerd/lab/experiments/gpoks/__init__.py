"""[B]: Glimsdal, efficient Gaussian process based optimistic knapsack sampling; all tables of section 8, appendix A.

gpoks-many-pages and gpoks-switching are our own: the same scheme as an allocator, on as many pages as a daemon has, and
where pages change places.
"""

from pollerd.lab.experiments.gpoks.eight_pages import EIGHT_PAGES
from pollerd.lab.experiments.gpoks.greedy import GREEDY_KNAPSACK
from pollerd.lab.experiments.gpoks.many_pages import ManyPages
from pollerd.lab.experiments.gpoks.more_bandits import MORE_BANDITS
from pollerd.lab.experiments.gpoks.numbers import NUMBERS
from pollerd.lab.experiments.gpoks.running_time import RunningTime
from pollerd.lab.experiments.gpoks.switching import GpoksSwitching
from pollerd.lab.experiments.gpoks.two_pages import TWO_PAGES

EXPERIMENTS = (
    RunningTime(),
    *TWO_PAGES,
    *EIGHT_PAGES,
    NUMBERS,
    GREEDY_KNAPSACK,
    MORE_BANDITS,
    ManyPages(),
    GpoksSwitching(),
)
