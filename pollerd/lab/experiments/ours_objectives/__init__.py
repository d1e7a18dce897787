"""Our own: every allocator under the objectives that the papers on polling do not have."""

from pollerd.lab.experiments.ours_objectives.objectives import Objectives, PolledSites

MIXED = (60.0, 3 * 86_400.0)
TEN_MINUTES = (600.0, 600.0)

EXPERIMENTS = (
    Objectives(
        "freshness",
        {
            "0.3/1.5": PolledSites(0.3, 1.5),
            "0.3/1.0": PolledSites(0.3, 1.0),
            "0.9/1.5": PolledSites(0.9, 1.5),
            "0.9/1.5, switching": PolledSites(0.9, 1.5, switching=True),
        },
    ),
    Objectives(
        "interest",
        {
            "0.3/1.5, 1 min to 3 d": PolledSites(0.3, 1.5, half_lives=MIXED),
            "0.3/1.0, 1 min to 3 d": PolledSites(0.3, 1.0, half_lives=MIXED),
            "0.9/1.5, 1 min to 3 d": PolledSites(0.9, 1.5, half_lives=MIXED),
            "0.9/1.5, 1 min to 3 d, switching": PolledSites(0.9, 1.5, switching=True, half_lives=MIXED),
            "0.3/1.5, 10 min": PolledSites(0.3, 1.5, half_lives=TEN_MINUTES),
        },
    ),
    Objectives(
        "delay",
        {
            "0.3/1.5": PolledSites(0.3, 1.5),
            "0.3/1.0": PolledSites(0.3, 1.0),
            "0.9/1.5": PolledSites(0.9, 1.5),
        },
    ),
    Objectives(
        "deadline",
        {
            "0.3/1.0, 1/20 cycle": PolledSites(0.3, 1.0, deadline=0.05),
            "0.3/1.0, 1/4 cycle": PolledSites(0.3, 1.0, deadline=0.25),
            "0.9/1.5, 1/4 cycle": PolledSites(0.9, 1.5, deadline=0.25),
        },
    ),
)
