"""The schemes of [A] 4.3, and our settings where the paper gives none."""

from __future__ import annotations

from dataclasses import replace

from pollerd.simulation.experiments.learning_curves import Scheme, scheme

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
    "it does (below). Measured in polls 30,000 to 45,000 of 8 runs: H-TRAA's mixes are worth .981 of the optimum and "
    "find .956, LAKG's are worth .969 and find .963. The best mix of all finds .988: a page of amount .61 is polled "
    "after one step or two, never after 1.6. The rest is that amounts move with every poll, H-TRAA's at every level"
)
STRONG_LAKG = (
    "in the web H-TRAA's mixes lose .025 between what they are worth and what they find, LAKG's .006 (docs/papers/"
    "htraa.md); at the mix, which [A] 3.2 describes, H-TRAA stays ahead: .985 and .972 in figure 8. [A] prints neither "
    "λ nor N of its LAKG, either"
)
SLOW_DOUBLING = (
    "after 20,000 polls, where the quick size ends, the upper automata, of up to 8,192 states, have not settled; in "
    "polls 40,000 to 100,000 of 15 runs both had .968"
)
SLOW_LAKG = (
    "after 20,000 polls, where the quick size ends, LAKG is still learning; in polls 40,000 to 100,000 it reached .972"
)

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
