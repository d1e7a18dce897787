"""[B]'s tables for two pages, 8.2 to 8.9, and the two of the short paper in its appendix."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pollerd.lab.experiments.experiment import PublishedValue
from pollerd.lab.experiments.gpoks import printed as p
from pollerd.lab.experiments.gpoks.readings import with_readings
from pollerd.lab.experiments.gpoks.reasons import why
from pollerd.lab.experiments.gpoks.schemes import VARIANT
from pollerd.lab.experiments.gpoks.tables import REMARKS, STEPS, THESIS, MaterialSet, Table

_PAIRS = tuple(MaterialSet(column, pair) for column, pair in p.PAIRS.items())
_MIDDLE = (MaterialSet("", p.PAIRS[p.MIDDLE]),)
_NOISES = tuple(MaterialSet(p.noise_column(sigma), p.PAIRS[p.MIDDLE], sigma) for sigma in p.SIGMAS)
_SHORT_PAPER = "[B] appendix B, Glimsdal and Granmo, short paper on GPOKS"
_SHORT_NOISE = 0.1


def _table(
    name: str,
    title: str,
    environments: tuple[MaterialSet, ...],
    numbers: list[PublishedValue],
    source: str = THESIS,
    **parameters: Any,
) -> Table:
    rows = tuple(dict.fromkeys(number.row for number in numbers))
    place = f"{source}, table {name.rpartition('-')[2]}"
    return Table(name, title, place, rows, environments, tuple(numbers), why(name, numbers), **parameters)


_VARIATIONS = _table("gpoks-8.5", "GPOKS's variations", _PAIRS, p.found_by(p.VARIATIONS))
_SOLVED = ("GPOKS", "GPOKS:GPR", "GPOKS:UCB", "GPOKS:IPS", "GPOKS:IPS-OTS")


def _otherwise(name: str, title: str, **parameters: Any) -> Table:
    """Returns table 8.5 with other parameters, for the rows that depend on them."""
    numbers = tuple(number for number in _VARIATIONS.numbers if number.row in _SOLVED)
    why_other = why(name, list(numbers))
    return replace(_VARIATIONS, name=name, title=title, rows=_SOLVED, numbers=numbers, why=why_other, **parameters)


def _even_start() -> Table:
    """Returns all of GPOKS's variants at t=10 and t=100 after a first step that [B] does not print."""
    published = [*p.found_by(p.REJECTION), *_VARIATIONS.numbers]
    numbers = {
        (number.row, number.column): number
        for number in published
        if number.row in VARIANT and not number.column.endswith(f"t={STEPS}")
    }
    name, title = "gpoks-8.2-even-start", "GPOKS's variants where the first step is the even split, of which all tell"
    table = _table(name, title, _PAIRS, list(numbers.values()), times=(10, 100), even_start=True)
    return replace(table, source=f"{THESIS}, tables 8.2 and 8.5")


TWO_PAGES = (
    _table("gpoks-8.2", "conditions on the functions that are drawn", _PAIRS, p.found_by(p.REJECTION)),
    _even_start(),
    _table("gpoks-8.3", "variance of table 8.2", _MIDDLE, p.variances(p.VARIANCE_REJECTION), varies=True),
    _table("gpoks-8.4", "table 8.2 under white noise", _NOISES, p.under_noise(p.NOISE_REJECTION), times=(STEPS,)),
    _VARIATIONS,
    _otherwise("gpoks-8.5-product", "GPOKS's variations, DET-KS by its formula", gain="product"),
    _otherwise("gpoks-8.5-21-points", "GPOKS's variations on an index set of 21 points", points=21),
    _table("gpoks-8.6", "variance of table 8.5", _MIDDLE, p.variances(p.VARIANCE_VARIATIONS), varies=True),
    _table("gpoks-8.7", "table 8.5 under white noise", _NOISES, p.under_noise(p.NOISE_VARIATIONS), times=(STEPS,)),
    _table("gpoks-8.8", "GPOKS and its contenders", _PAIRS, with_readings(p.found_by(p.CONTENDERS))),
    _table(
        "gpoks-8.9", "variance of table 8.8", _MIDDLE, with_readings(p.variances(p.VARIANCE_CONTENDERS)), varies=True
    ),
    _table(
        "gpoks-short-1",
        "GPOKS, its mean and LAKG under a little noise",
        tuple(replace(pair, noise=_SHORT_NOISE) for pair in _PAIRS),
        with_readings(p.found_by(p.SHORT)),
        _SHORT_PAPER,
        remarks=REMARKS + f" White noise of σ = {_SHORT_NOISE} on all feedback, as the paper's footnote has it.",
    ),
    _table(
        "gpoks-short-2",
        "GPOKS and the mean under white noise",
        _NOISES,
        p.under_noise(p.NOISE_SHORT),
        _SHORT_PAPER,
        times=(STEPS,),
    ),
)
