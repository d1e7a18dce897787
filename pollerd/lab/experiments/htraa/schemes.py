"""The schemes of [A] 4.3, and our settings where the paper gives none."""

from __future__ import annotations

from dataclasses import replace

from pollerd.lab.experiments.learning_curves import Scheme, scheme

PAPER = "[A] Granmo, Oommen: Learning Automata-based Solutions to the Optimal Web Polling Problem"

SETTINGS = (
    "Set by us, because the paper does not print it: the number of polls shown, the lengths of the estimation phase, "
    "the number of runs, LAKG's resolution (500 states) and its λ (the smallest for which the lowest amounts fill at "
    "most a tenth of the knapsack), and N of the lowest automata where it doubles from level to level (32). H-TRAA has "
    "the paper's N = 500, λ = 1 and leaves in the order of the pages. One poll a step in the web with its true "
    "changes; shares are of the clairvoyant optimum `1 - Π(1 - p)`."
)

REAL_GAPS = (
    "in the web; at the mix itself, which is what [A] 3.2 describes (the environment answers an amount by p_i(x_i)), "
    "it does (below). In the web even the best mix finds less than it is worth, because a page is polled after whole "
    "steps, and the amounts of H-TRAA move with every poll at every level; docs/papers/htraa.md has what each costs"
)
STRONG_LAKG = (
    "in the web H-TRAA's mixes lose more than LAKG's between what they are worth and what they find "
    "(docs/papers/htraa.md); at the mix, which [A] 3.2 describes, H-TRAA stays ahead (htraa-fig-8). [A] prints neither "
    "λ nor N of its LAKG, either"
)
SLOW_DOUBLING = (
    "after 20,000 polls, where the quick size ends, the upper automata, of up to 8,192 states, have not settled; the "
    "full size shows both alike"
)
SLOW_LAKG = "after 20,000 polls, where the quick size ends, LAKG is still learning; the full size shows where it ends"

UNIFORM = scheme("Uniform", "uniform")
PROPORTIONAL = scheme("Proportional", "proportional", told_rates=True)
OPTIMAL = scheme("Optimal", "optimal", told_rates=True)
LAKG = scheme("LAKG", "lakg")
HTRAA = scheme("H-TRAA", "htraa", reorder=False)
DOUBLING = scheme("H-TRAA, N doubling", "htraa", reorder=False, growth=2.0, resolution=32)
PHASES = (1000, 5000, 10_000)


def estimator(phase: int) -> Scheme:
    """Returns the estimator with a phase of this many polls."""
    return scheme(f"Estimator {phase:,}", "estimator", phase=phase)


def at_mix(of: Scheme) -> Scheme:
    """Returns the scheme in the knapsack: feedback and score are `d_i(x_i)` at its amounts."""
    return replace(of, name=f"{of.name}, at the mix", at_mix=True)


def swapped(of: Scheme, swaps: int) -> Scheme:
    """Returns the scheme on pages whose ranking is perturbed by neighbour swaps; their number is a power of ten."""
    return replace(of, name=f"{of.name}, 10^{len(str(swaps)) - 1} swaps", web=(("swaps", swaps),))
