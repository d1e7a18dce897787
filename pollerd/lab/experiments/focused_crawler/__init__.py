"""[C]: the focused crawler, on generated webs."""

from pollerd.lab.experiments.focused_crawler.concurrency import Concurrency
from pollerd.lab.experiments.focused_crawler.traversals import Traversals
from pollerd.lab.experiments.focused_crawler.unseen import Unseen
from pollerd.lab.experiments.focused_crawler.upkeep import Upkeep

EXPERIMENTS = (Traversals(), Unseen(), Upkeep(), Concurrency())
