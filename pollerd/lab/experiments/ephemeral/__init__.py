"""[E]: the Whittle index of ephemeral content, on its four sources."""

from pollerd.lab.experiments.ephemeral.pictures import ContentValue, States
from pollerd.lab.experiments.ephemeral.table import EphemeralTable

EXPERIMENTS = (
    EphemeralTable(),
    ContentValue(),
    States("ephemeral-fig-2", "the states with one poll per epoch", polls=1, drawn=False),
    States("ephemeral-fig-3", "the states with two polls per epoch", polls=2, drawn=False),
    States("ephemeral-fig-4", "the drawn states with two polls per epoch", polls=2, drawn=True),
)
