"""Whether a number of a page agrees with that of a run.

A run with as many repetitions as the page's has the same random numbers: value and standard error must equal the page's
at the page's number of digits. Otherwise the difference may be up to `MAX_ERRORS` of its standard errors. The page's
standard error is the one printed there; the run's is its own or the page's scaled to its number of repetitions,
whichever is larger. If the page prints none, the run's own is used for both, widened by the ratio of Student's t to the
normal distribution; that takes `MIN_RUNS` repetitions, unless all of them have the same value. Both samples share
their first repetitions, so this allows rather too much.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from doc_tables.printed_numbers import PrintedNumber, half_a_digit, in_digits_of, number

MAX_ERRORS = 4.0
"""Sixty of a million numbers are further away by chance."""
MIN_RUNS = 4
"""Least number of repetitions with a meaningful standard error: two may agree by chance."""
Verdict = Literal["agrees", "differs", "unknown"]


@dataclass(frozen=True)
class RunEstimate:
    """A run's mean or variance over `runs` repetitions, with its standard error (nan: unknown)."""

    value: float
    error: float
    runs: int


@dataclass(frozen=True)
class Judgement:
    """Result for a number. unknown: neither page nor run has a standard error to use. now: in the page's digits."""

    verdict: Verdict
    now: str
    why: str = ""


def judged(printed: PrintedNumber, page_runs: int, now: RunEstimate, *, same_draws: bool = True) -> Judgement:
    """Compares the page's number, of `page_runs` repetitions, with the current one.

    same_draws: the same number of repetitions has the page's random numbers; else standard errors decide in any case.
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
        return Judgement("unknown", shown, f"too few repetitions ({now.runs}), and no standard error in the page")
    near = abs(now.value - number(printed.value)) <= MAX_ERRORS * error + half_a_digit(printed.value)
    return Judgement("agrees" if near else "differs", shown, "" if near else _in_errors(printed, page_runs, now))


def _same_error(printed: PrintedNumber, now: RunEstimate) -> bool:
    if printed.error is None or math.isnan(now.error):
        return True
    return abs(now.error - number(printed.error)) <= half_a_digit(printed.error)


def _error_of_the_difference(printed: PrintedNumber, page_runs: int, now: RunEstimate) -> float:
    if printed.error is not None:
        pages = number(printed.error) + half_a_digit(printed.error)
        expected = pages * math.sqrt(page_runs / now.runs)
        return math.hypot(pages, expected if math.isnan(now.error) else max(now.error, expected))
    if _is_nothing(now.error, now):
        return 0.0
    if math.isnan(now.error) or now.runs < MIN_RUNS:
        return math.nan
    return now.error * math.hypot(1.0, math.sqrt(now.runs / page_runs)) * _widening(now.runs)


def _widening(runs: int) -> float:
    """Returns the quantile of Student's t over the normal one, at `MAX_ERRORS`; three terms in 1 / degrees."""
    z, degrees = MAX_ERRORS, runs - 1
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return sum(term / float(degrees) ** power for power, term in enumerate(terms)) / z


def _is_nothing(error: float, now: RunEstimate) -> bool:
    """Returns whether all repetitions have the same value: a sum of equal numbers has a rounding error."""
    return error <= 1e-9 * abs(now.value)


def _in_errors(printed: PrintedNumber, page_runs: int, now: RunEstimate) -> str:
    error = _error_of_the_difference(printed, page_runs, now)
    away = abs(now.value - number(printed.value))
    return f"{away / error:.1f} standard errors apart" if error > 0 and not _is_nothing(error, now) else ""
