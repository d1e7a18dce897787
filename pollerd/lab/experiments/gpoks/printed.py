"""The numbers of [B]'s tables, as printed."""

from __future__ import annotations

from pollerd.lab.experiments.experiment import PublishedValue

TIMES = (10, 100, 1000)
PAIRS = {"0.55/0.45": (0.55, 0.45), "0.75/0.25": (0.75, 0.25), "0.90/0.10": (0.90, 0.10)}
MIDDLE = "0.75/0.25"
ZIPFS = {"0.3/1.0": (0.3, 1.0), "0.6/1.0": (0.6, 1.0), "0.9/1.5": (0.9, 1.5)}
SIGMAS = (0.0, 0.2, 0.4)

_OPTIMAL = {"0.55/0.45": "7.5 75.2 752.4", "0.75/0.25": "8.1 81.2 812.4", "0.90/0.10": "9.0 90.9 909.9"}
_GPOKS = {"0.55/0.45": "7.0 73.5 749.7", "0.75/0.25": "7.3 79.8 807.5", "0.90/0.10": "8.3 89.5 903.4"}

REJECTION = {
    "GPOKS": _GPOKS,
    "GPOKS:TS": {"0.55/0.45": "5.9 68.8 738.5", "0.75/0.25": "6.6 74.7 787.9", "0.90/0.10": "7.8 86.6 888.8"},
    "GPOKS:OTS": {"0.55/0.45": "6.1 70.4 744.4", "0.75/0.25": "6.9 76.5 800.1", "0.90/0.10": "8.2 88.9 900.8"},
    "GPOKS:MONO": {"0.55/0.45": "6.7 72.1 746.1", "0.75/0.25": "7.3 77.7 802.9", "0.90/0.10": "8.3 89.2 902.3"},
}
"""Table 8.2: scheme -> pair -> updates found at t = 10, 100, 1000."""
VARIATIONS = {
    "OPTIMAL": _OPTIMAL,
    "GPOKS": _GPOKS,
    "GPOKS:GPR": {"0.55/0.45": "5.3 51.7 721.7", "0.75/0.25": "6.3 73.9 798.7", "0.90/0.10": "8.6 89.8 902.8"},
    "GPOKS:UCB": {"0.55/0.45": "6.7 72.9 747.5", "0.75/0.25": "7.4 78.7 807.4", "0.90/0.10": "8.4 89.3 904.8"},
    "GPOKS:IPS": {"0.55/0.45": "6.0 69.1 738.3", "0.75/0.25": "5.7 72.0 775.3", "0.90/0.10": "7.9 87.1 890.4"},
    "GPOKS:IPS-OTS": {"0.55/0.45": "6.0 68.9 738.6", "0.75/0.25": "5.5 72.6 778.4", "0.90/0.10": "7.8 86.9 890.6"},
    "UNIFORM": {"0.55/0.45": "7.4 74.7 747.5", "0.75/0.25": "6.8 68.7 687.5", "0.90/0.10": "5.9 59.0 590.0"},
}
"""Table 8.5."""
CONTENDERS = {
    "OPTIMAL": _OPTIMAL,
    "GPOKS": _GPOKS,
    "MAB:UCB-1": {"0.55/0.45": "4.9 66.3 668.5", "0.75/0.25": "3.0 63.0 659.9", "0.90/0.10": "1.5 57.0 654.0"},
    "MAB:UCB-1-RAW": {"0.55/0.45": "6.5 63.9 603.1", "0.75/0.25": "6.5 71.8 738.0", "0.90/0.10": "7.0 83.4 881.5"},
    "MAB:TS": {"0.55/0.45": "6.6 66.4 709.2", "0.75/0.25": "6.3 64.1 756.7", "0.90/0.10": "5.6 60.0 842.4"},
    "MAB:GP-UCB": {"0.55/0.45": "5.4 67.3 732.4", "0.75/0.25": "6.4 73.9 783.6", "0.90/0.10": "7.2 87.2 895.6"},
    "LA:LAKG": {"0.55/0.45": "6.7 69.5 709.8", "0.75/0.25": "6.7 69.5 709.7", "0.90/0.10": "6.7 69.6 709.8"},
    "LA:H-TRAA": {"0.55/0.45": "6.8 68.8 676.4", "0.75/0.25": "6.8 68.6 676.2", "0.90/0.10": "6.8 68.7 676.3"},
}
"""Table 8.8."""
MANY = {
    "OPTIMAL": {"0.3/1.0": "5.9 59.2 592.1", "0.6/1.0": "8.7 87.1 871.7", "0.9/1.5": "9.5 95.9 959.4"},
    "GPOKS:TS": {"0.3/1.0": "3.2 42.1 535.2", "0.6/1.0": "4.8 65.3 802.6", "0.9/1.5": "5.2 76.4 894.1"},
    "GPOKS:OTS": {"0.3/1.0": "3.2 43.1 545.9", "0.6/1.0": "4.7 66.0 814.7", "0.9/1.5": "4.9 78.9 925.0"},
    "GPOKS:GPR": {"0.3/1.0": "2.6 33.2 539.0", "0.6/1.0": "5.4 62.4 799.9", "0.9/1.5": "8.1 90.3 926.4"},
    "GPOKS:UCB": {"0.3/1.0": "2.9 45.2 563.7", "0.6/1.0": "5.5 69.4 837.6", "0.9/1.5": "7.3 80.6 934.5"},
    "LA:H-TRAA": {"0.3/1.0": "4.9 49.6 470.0", "0.6/1.0": "7.1 70.2 645.4", "0.9/1.5": "6.0 60.1 566.4"},
    "LA:LAKG": {"0.3/1.0": "4.9 51.9 571.8", "0.6/1.0": "7.0 73.4 828.9", "0.9/1.5": "6.0 64.9 855.9"},
}
"""Table 8.10: scheme -> α/β -> updates found."""
SHORT = {
    "OPTIMAL": {"0.90/0.10": "9.1 91.0 909.9", "0.75/0.25": "8.1 81.2 812.5", "0.55/0.45": "7.5 75.2 752.5"},
    "UNIFORM": {"0.90/0.10": "5.9 59.0 590.0", "0.75/0.25": "6.9 68.8 687.5", "0.55/0.45": "7.5 74.8 747.5"},
    "LA:LAKG": {"0.90/0.10": "6.0 71.6 874.9", "0.75/0.25": "6.9 74.1 793.1", "0.55/0.45": "7.5 74.8 749.8"},
    "GPOKS": {"0.90/0.10": "8.0 88.9 903.0", "0.75/0.25": "7.4 78.8 807.9", "0.55/0.45": "7.0 73.5 749.4"},
    "GPOKS:GPR": {"0.90/0.10": "8.5 89.7 902.9", "0.75/0.25": "6.6 69.6 792.2", "0.55/0.45": "5.4 52.8 725.3"},
}
"""Table 1 of the short paper."""

NOISE_REJECTION = {
    "GPOKS": "807.5 804.9 802.7",
    "GPOKS:TS": "787.9 786.4 772.8",
    "GPOKS:OTS": "804.1 803.8 797.5",
    "GPOKS:MONO": "802.9 800.4 799.5",
}
"""Table 8.4: scheme -> updates found in 1,000 steps at σ = 0, .2, .4, for .75/.25."""
NOISE_VARIATIONS = {
    "GPOKS": "807.5 804.9 802.7",
    "GPOKS:GPR": "798.7 788.1 769.4",
    "GPOKS:UCB": "807.4 806.6 804.0",
    "GPOKS:IPS-OTS": "778.4 767.6 756.3",
    "GPOKS:IPS": "775.3 764.2 753.4",
}
"""Table 8.7."""
NOISE_SHORT = {"GPOKS": "808.2 804.5 804.1", "GPOKS:GPR": "793.9 787.2 769.1"}
"""Table 2 of the short paper."""

VARIANCE_REJECTION = {"GPOKS": "6.29", "GPOKS:TS": "34.04", "GPOKS:OTS": "7.93", "GPOKS:MONO": "8.14"}
"""Table 8.3: scheme -> variance over runs of the updates found in 1,000 steps, for .75/.25."""
VARIANCE_VARIATIONS = {
    "GPOKS": "6.29",
    "GPOKS:GPR": "77.66",
    "GPOKS:UCB": "7.93",
    "GPOKS:IPS": "62.91",
    "GPOKS:IPS-OTS": "62.30",
}
"""Table 8.6."""
VARIANCE_CONTENDERS = {
    "GPOKS": "6.29",
    "MAB:UCB-1": "13.3",
    "MAB:TS": "52.2",
    "MAB:UCB-1-RAW": "162.9",
    "MAB:GP-UCB": "62.91",
    "LA:LAKG": "2.9",
    "LA:H-TRAA": "651.0",
}
"""Table 8.9."""
VARIANCE_MANY = {
    "GPOKS:OTS": "43.9",
    "GPOKS:TS": "92.5",
    "GPOKS:GPR": "774.3",
    "GPOKS:UCB": "25.7",
    "LA:LAKG": "62.91",
    "LA:H-TRAA": "1008.4",
}
"""Table 8.11, for 8 pages with α/β = .6/1."""
EXTREMES_MANY = (PublishedValue("LA:H-TRAA", "least", "396.6"), PublishedValue("LA:H-TRAA", "most", "766.7"))
"""The worst and the best trial of H-TRAA in table 8.11, in the text below it."""

SECONDS = {
    "FAST-GPOKS": {"10": "1.9", "100": "3.1", "1000": "84", "2000": "120", "4000": "240", "10000": "240"},
    "REGULAR-GPOKS": {"10": "1.9", "100": "3.1", "1000": "126", "2000": "1242", "4000": "10080"},
}
"""Table 8.1: s for one run of t steps, from 1.4 min and the like; REGULAR-GPOKS at 10,000 took more than ten hours."""


def found_by(table: dict[str, dict[str, str]]) -> list[PublishedValue]:
    """Returns the numbers of a table of updates found: rows are schemes, columns `environment t=steps`."""
    return [
        PublishedValue(row, f"{environment} t={t}", value)
        for row, environments in table.items()
        for environment, values in environments.items()
        for t, value in zip(TIMES, values.split(), strict=True)
    ]


def under_noise(table: dict[str, str]) -> list[PublishedValue]:
    """Returns the numbers of a table of updates found under noise: columns `σ=.. t=1000`."""
    return [
        PublishedValue(row, noise_column(sigma) + " t=1000", value)
        for row, values in table.items()
        for sigma, value in zip(SIGMAS, values.split(), strict=True)
    ]


def noise_column(sigma: float) -> str:
    """Returns the prefix of a column of a noise table."""
    return f"σ={sigma:.1f}"


def variances(table: dict[str, str]) -> list[PublishedValue]:
    """Returns the numbers of a table of variances: one column, `variance`."""
    return [PublishedValue(row, "variance", value) for row, value in table.items()]
