"""[B]'s tables for eight pages, 8.10 and 8.11."""

from __future__ import annotations

from pollerd.lab.experiments.gpoks import printed as p
from pollerd.lab.experiments.gpoks.readings import READS_OF_MANY, with_readings
from pollerd.lab.experiments.gpoks.reasons import why
from pollerd.lab.experiments.gpoks.tables import THESIS, MaterialSet, Table, zipf

_PAGES = 8
_WEBS = tuple(zipf(column, alpha, beta, _PAGES) for column, (alpha, beta) in p.ZIPFS.items())
_ONE_WEB = (MaterialSet("", zipf("", *p.ZIPFS["0.6/1.0"], _PAGES).probabilities),)
_FOUND = with_readings(p.found_by(p.MANY), READS_OF_MANY)
_VARIANCES = with_readings([*p.variances(p.VARIANCE_MANY), *p.EXTREMES_MANY], READS_OF_MANY)

EIGHT_PAGES = (
    Table(
        "gpoks-8.10",
        "eight pages",
        f"{THESIS}, table 8.10",
        tuple(dict.fromkeys(number.row for number in _FOUND)),
        _WEBS,
        tuple(_FOUND),
        why("gpoks-8.10", _FOUND),
    ),
    Table(
        "gpoks-8.11",
        "eight pages: variance",
        f"{THESIS}, table 8.11",
        tuple(dict.fromkeys(number.row for number in _VARIANCES)),
        _ONE_WEB,
        tuple(_VARIANCES),
        why("gpoks-8.11", _VARIANCES),
        varies=True,
    ),
)
