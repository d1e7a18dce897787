"""[A]: Granmo and Oommen, optimal web polling as a knapsack; figures 5 to 12 and the numbers of section 4.3.1."""

from pollerd.simulation.experiments.htraa.scalability import SCALABILITY
from pollerd.simulation.experiments.htraa.static import STATIC
from pollerd.simulation.experiments.htraa.switching import SWITCHING
from pollerd.simulation.experiments.htraa.updates import UPDATES_A_STEP
from pollerd.simulation.experiments.htraa.updating import UPDATING

EXPERIMENTS = (UPDATES_A_STEP, UPDATING, *STATIC, *SWITCHING, *SCALABILITY)
