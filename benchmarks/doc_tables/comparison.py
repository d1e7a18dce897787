"""Whether a number of a page and what a run makes of it now agree.

Where the run has as many repetitions as the page's, it has the same random numbers: value and standard error must be
the page's at the page's number of digits. Where it has others, the difference may be `MOST_ERRORS` standard errors of
it. That of the page is the one printed there; that of the run is its own or what the page's comes to with so many
repetitions, whichever is larger. Where the page prints none, the run's own is taken for both, and widened as Student's
law is wider than the normal; that takes `LEAST_RUNS` repetitions, but where all of them came to the same. Both samples
share their first repetitions, so that this allows rather too much.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from doc_tables.printed_numbers import PrintedNumber, half_a_digit, in_digits_of, number

MOST_ERRORS = 4.0
"""Sixty of a million numbers are further away by chance."""
LEAST_RUNS = 4
"""Repetitions whose own standard error is worth anything: two may come to nearly the same by chance."""
Verdict = Literal["agrees", "differs", "untold"]


@dataclass(frozen=True)
class Estimate:
    """What a run has for a number: mean or variance over `runs` repetitions, with its standard error (nan: untold)."""

    value: float
    error: float
    runs: int


@dataclass(frozen=True)
class Judgement:
    """untold: neither the page nor the run has a standard error to judge by. now: as the page would print it."""

    verdict: Verdict
    now: str
    why: str = ""


def judged(printed: PrintedNumber, page_runs: int, now: Estimate, *, same_draws: bool = True) -> Judgement:
    """The page's number, of `page_runs` repetitions, beside what came out now.

    same_draws: as many repetitions have the page's random numbers; else standard errors tell, however many they are.
    """
    shown = in_digits_of(now.value, printed.value)
    if printed.error is not None and not math.isnan(now.error):
        shown += f" ± {in_digits_of(now.error, printed.error)}"
    if now.runs == page_runs and same_draws:
        away = abs(now.value - number(printed.value))
        same = away <= half_a_digit(printed.value) and _same_error(printed, now)
        return Judgement("agrees" if same else "differs", shown, "" if same else _in_errors(printed, page_runs, now))
    error = _error_of_the_difference(printed, page_runs, now)
    if math.isnan(now.value) or math.isnan(error):
        return Judgement("untold", shown, f"too few repetitions ({now.runs}), and no standard error in the page")
    near = abs(now.value - number(printed.value)) <= MOST_ERRORS * error + half_a_digit(printed.value)
    return Judgement("agrees" if near else "differs", shown, "" if near else _in_errors(printed, page_runs, now))


def _same_error(printed: PrintedNumber, now: Estimate) -> bool:
    if printed.error is None or math.isnan(now.error):
        return True
    return abs(now.error - number(printed.error)) <= half_a_digit(printed.error)


def _error_of_the_difference(printed: PrintedNumber, page_runs: int, now: Estimate) -> float:
    if printed.error is not None:
        pages = number(printed.error) + half_a_digit(printed.error)
        expected = pages * math.sqrt(page_runs / now.runs)
        return math.hypot(pages, expected if math.isnan(now.error) else max(now.error, expected))
    if _is_nothing(now.error, now):
        return 0.0
    if math.isnan(now.error) or now.runs < LEAST_RUNS:
        return math.nan
    return now.error * math.hypot(1.0, math.sqrt(now.runs / page_runs)) * _widening(now.runs)


def _widening(runs: int) -> float:
    """Quantile of Student's law over that of the normal law, both at `MOST_ERRORS`; three terms in 1 / degrees."""
    z, degrees = MOST_ERRORS, runs - 1
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return sum(term / float(degrees) ** power for power, term in enumerate(terms)) / z


def _is_nothing(error: float, now: Estimate) -> bool:
    """Whether all repetitions came to the same: a sum of equal numbers has an error of some last bits."""
    return error <= 1e-9 * abs(now.value)


def _in_errors(printed: PrintedNumber, page_runs: int, now: Estimate) -> str:
    error = _error_of_the_difference(printed, page_runs, now)
    away = abs(now.value - number(printed.value))
    return f"{away / error:.1f} standard errors apart" if error > 0 and not _is_nothing(error, now) else ""
