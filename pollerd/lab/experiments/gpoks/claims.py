"""Statements of [B] about its tables, checked against our results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pollerd.lab.experiments.experiment import Claim
from pollerd.lab.experiments.gpoks.reasons import SAME_ROWS
from pollerd.lab.experiments.results import Results

VARIANCE, LEAST, MOST = "variance", "least", "most"
_PAIRS = ("0.55/0.45 t=1000", "0.75/0.25 t=1000", "0.90/0.10 t=1000")
_WEBS = ("0.3/1.0 t=1000", "0.6/1.0 t=1000", "0.9/1.5 t=1000")
_NOISE = ("σ=0.0 t=1000", "σ=0.2 t=1000", "σ=0.4 t=1000")


@dataclass(frozen=True)
class RankingClaim:
    """Claims that each of the rows `ahead` has more than each of the rows `of` in each column; of variance, less.

    reason: why it does not hold, if it does not.
    """

    text: str
    ahead: tuple[str, ...]
    of: tuple[str, ...]
    columns: tuple[str, ...]
    reason: str = ""

    def asked(self, results: Results) -> Claim:
        """Checks the claim on results that have all its rows and columns."""
        pairs = {column: self._least_ahead(results, column) for column in self.columns}
        shown = "; ".join(f"{column}: {ahead:.1f} and {of:.1f}" for column, (ahead, of) in pairs.items())
        holds = all(ahead < of if column == VARIANCE else ahead > of for column, (ahead, of) in pairs.items())
        return Claim(self.text, holds, shown, self.reason)

    def _least_ahead(self, results: Results, column: str) -> tuple[float, float]:
        """Returns the worst of the rows ahead, and the best of the others."""
        ours, theirs = ([results.value(row, column) for row in rows] for rows in (self.ahead, self.of))
        return (max(ours), min(theirs)) if column == VARIANCE else (min(ours), max(theirs))


_REJECTED = ("GPOKS:TS", "GPOKS:OTS", "GPOKS:MONO")
_OTHERS = ("GPOKS:GPR", "GPOKS:IPS", "GPOKS:IPS-OTS")
SAID: Mapping[str, tuple[RankingClaim, ...]] = {
    "gpoks-8.2": (
        RankingClaim("rejection sampling helps", ("GPOKS", *_REJECTED[1:]), _REJECTED[:1], _PAIRS),
        RankingClaim("both conditions find a little more than either", ("GPOKS",), _REJECTED[1:], _PAIRS),
    ),
    "gpoks-8.3": (RankingClaim("GPOKS, with both conditions, varies least", ("GPOKS",), _REJECTED, (VARIANCE,)),),
    "gpoks-8.5": (
        RankingClaim(
            "GPOKS and GPOKS:UCB find more than the other variations", ("GPOKS", "GPOKS:UCB"), _OTHERS, _PAIRS
        ),
    ),
    "gpoks-8.6": (
        RankingClaim(
            "GPOKS and GPOKS:UCB vary less than the other variations", ("GPOKS", "GPOKS:UCB"), _OTHERS, (VARIANCE,)
        ),
    ),
    "gpoks-8.7": (
        RankingClaim(
            "GPOKS and GPOKS:UCB stand out by their resistance to noise", ("GPOKS", "GPOKS:UCB"), _OTHERS, _NOISE
        ),
        RankingClaim("under noise GPOKS:UCB has a small edge on GPOKS", ("GPOKS:UCB",), ("GPOKS",), _NOISE[1:]),
    ),
    "gpoks-8.8": (
        RankingClaim(
            "MAB:UCB-1-RAW finds more than MAB:UCB-1 (not in print for 0.55/0.45)",
            *(("MAB:UCB-1-RAW",), ("MAB:UCB-1",), _PAIRS[1:]),
        ),
        RankingClaim(
            "MAB:GP-UCB beats both automata with a good margin",
            *(("MAB:GP-UCB",), ("LA:LAKG", "LA:H-TRAA"), _PAIRS),
            SAME_ROWS,
        ),
    ),
    "gpoks-8.10": (
        RankingClaim(
            "of GPOKS's variants GPOKS:UCB finds most", ("GPOKS:UCB",), ("GPOKS:TS", "GPOKS:OTS", "GPOKS:GPR"), _WEBS
        ),
        RankingClaim("on 0.3/1.0 LA:LAKG finds most", ("LA:LAKG",), ("GPOKS:UCB", "GPOKS:OTS", "LA:H-TRAA"), _WEBS[:1]),
        RankingClaim(
            "on the others GPOKS:UCB and GPOKS:OTS do", ("GPOKS:UCB", "GPOKS:OTS"), ("LA:LAKG", "LA:H-TRAA"), _WEBS[1:]
        ),
    ),
    "gpoks-short-1": (RankingClaim("GPOKS finds more than LAKG at 0.90/0.10", ("GPOKS",), ("LA:LAKG",), _PAIRS[2:]),),
}
"""Claims by table."""


def claims_of(table: str, results: Results) -> Sequence[Claim]:
    """Returns the table's claims for which the results have all rows."""
    rows = set(results.rows)
    return [claim.asked(results) for claim in SAID.get(table, ()) if rows.issuperset((*claim.ahead, *claim.of))]
