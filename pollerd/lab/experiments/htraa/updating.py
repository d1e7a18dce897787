"""[A] figure 5: H-TRAA learning from rewards, penalties or both."""

from __future__ import annotations

from collections.abc import Sequence

from pollerd.lab.environments.zipf import Zipf
from pollerd.lab.experiments.experiment import Claim
from pollerd.lab.experiments.htraa.schemes import PAPER, SETTINGS
from pollerd.lab.experiments.learning_curves import Learning, LearningCurves, scheme
from pollerd.lab.experiments.results import Results

BOTH, REWARD, PENALTY = "Reward-Penalty", "Reward-Inaction", "Inaction-Penalty"

TOO_EARLY = "after 20,000 polls, where the quick size ends, Inaction-Penalty has not settled yet"


class Updating(LearningCurves):
    """Three updating schemes."""

    name = "htraa-fig-5"
    title = "updating schemes of H-TRAA, α = 0.9, β = 1.5, 512 pages"
    source = f"{PAPER}, figure 5"
    remarks = SETTINGS

    def claims(self, results: Results) -> Sequence[Claim]:
        return (
            self.quicker(
                "Reward-Penalty converges more quickly than Inaction-Penalty", results, BOTH, PENALTY, level=0.9
            ),
            self.quicker(
                "Reward-Penalty converges more quickly than Reward-Inaction", results, BOTH, REWARD, level=0.9
            ),
            self.compared("Inaction-Penalty is more accurate than Reward-Penalty", results, PENALTY, BOTH, TOO_EARLY),
            self.compared("Inaction-Penalty is more accurate than Reward-Inaction", results, PENALTY, REWARD),
            self.compared("Reward-Inaction is slightly inferior to Reward-Penalty", results, BOTH, REWARD),
        )


UPDATING = Updating(
    Learning(
        Zipf(512, 0.9, 1.5),
        tuple(scheme(name, "htraa", reorder=False, updating=name.lower()) for name in (BOTH, REWARD, PENALTY)),
        {"quick": 20_000, "full": 100_000},
    )
)
