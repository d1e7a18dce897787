"""[A] figures 11 and 12: LAKG and H-TRAA with increasing numbers of pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf

from pollerd.lab.environments.zipf import Zipf
from pollerd.lab.experiments.experiment import Cell, Claim, Size
from pollerd.lab.experiments.htraa import schemes as of
from pollerd.lab.experiments.learning_curves import Learning, LearningCurves, Scheme
from pollerd.lab.experiments.results import Results

PAGES = (512, 1024, 2048, 4096, 8192, 16_384, 32_768)
QUICK = 4
"""Number of them in the quick size."""
BESIDE_PAGES = PAGES[QUICK - 1]
"""Number of pages at which figure 12 shows LAKG, too."""
LEVEL = 0.6
COARSE = "of 200,000 polls no fewer than 10,000 can come out, five windows of 2,000; the quick size has finer ones"
REMARK = (
    " The paper does not say which environment these two figures show: here α = 0.9, β = 1.5, switching every 80,000 "
    "polls, because it speaks of adaptation."
)


class Scalability(LearningCurves):
    """One scheme, pages doubling. The quick size leaves out the largest."""

    batch = 4

    def __init__(self, number: int, scheme: Scheme, polls: Mapping[Size, int], beside: Sequence[Scheme] = ()) -> None:
        schemes = (*beside, *(_with_pages(scheme, n) for n in PAGES))
        super().__init__(Learning(Zipf(512, 0.9, 1.5, switch_every=80_000), schemes, polls, {"quick": 2, "full": 30}))
        self._beside = len(beside)
        self.name = f"htraa-fig-{number}"
        self.title = f"{scheme.name} with 512 to 32,768 pages"
        self.source, self.remarks = f"{of.PAPER}, figure {number}", of.SETTINGS + REMARK

    def cells(self, size: Size) -> Sequence[Cell]:
        return super().cells(size)[: None if size == "full" else self._beside + QUICK]


class LakgScalability(Scalability):
    """Figure 11."""

    def claims(self, results: Results) -> Sequence[Claim]:
        text = "More pages significantly lengthen LAKG's convergence"
        return (self.quicker(text, results, results.rows[0], results.rows[-1], LEVEL),)


class HtraaScalability(Scalability):
    """Figure 12."""

    def claims(self, results: Results) -> Sequence[Claim]:
        rows = results.rows[self._beside :]
        first, last = (self.polls_to(results, name, LEVEL) for name in (rows[0], rows[-1]))
        pages = PAGES[len(rows) - 1] / PAGES[0]
        shown = f"pages times {pages:g}: {first:,.0f} and {last:,.0f} polls until {LEVEL:.0%} of the optimum"
        names = (_with_pages(of.HTRAA, BESIDE_PAGES).name, _with_pages(of.LAKG, BESIDE_PAGES).name)
        text = "H-TRAA learns orders of magnitude faster than LAKG"
        ours, theirs = (self.polls_to(results, name, LEVEL) for name in names)
        faster = ours < inf and 10 * ours <= theirs
        return (
            Claim("H-TRAA scales sub-linearly with the number of pages", last < pages * first, shown),
            replace(self.quicker(text, results, *names, LEVEL), holds=faster, reason="" if faster else COARSE),
        )


def _with_pages(scheme: Scheme, pages: int) -> Scheme:
    return replace(scheme, name=f"{scheme.name}, {pages:,} pages", web=(("pages", pages),))


SCALABILITY = (
    LakgScalability(11, of.LAKG, {"quick": 40_000, "full": 200_000}),
    HtraaScalability(12, of.HTRAA, {"quick": 20_000, "full": 200_000}, [_with_pages(of.LAKG, BESIDE_PAGES)]),
)
