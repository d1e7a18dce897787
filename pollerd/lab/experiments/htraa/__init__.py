"""[A]: Granmo and Oommen, optimal web polling as a knapsack: figures 5 to 12, the numbers of the text, theorem 2."""

from pollerd.lab.experiments.htraa.amounts import AMOUNTS
from pollerd.lab.experiments.htraa.scalability import SCALABILITY
from pollerd.lab.experiments.htraa.schedulers import SCHEDULERS
from pollerd.lab.experiments.htraa.static import STATIC
from pollerd.lab.experiments.htraa.switching import SWITCHING
from pollerd.lab.experiments.htraa.theorem import THEOREM_2
from pollerd.lab.experiments.htraa.updates import UPDATES_A_STEP
from pollerd.lab.experiments.htraa.updating import UPDATING

EXPERIMENTS = (UPDATES_A_STEP, UPDATING, *STATIC, *SWITCHING, *SCALABILITY, SCHEDULERS, THEOREM_2, AMOUNTS)
