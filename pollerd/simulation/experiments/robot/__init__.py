"""[C]: the topic robot, on generated webs."""

from pollerd.simulation.experiments.robot.concurrency import Concurrency
from pollerd.simulation.experiments.robot.traversals import Traversals
from pollerd.simulation.experiments.robot.unseen import Unseen
from pollerd.simulation.experiments.robot.upkeep import Upkeep

EXPERIMENTS = (Traversals(), Unseen(), Upkeep(), Concurrency())
