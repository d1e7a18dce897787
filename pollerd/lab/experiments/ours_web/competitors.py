"""The competitors, by the number of pages that they are made for, and the environments."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pollerd.lab.environments.web import Policy
from pollerd.lab.environments.zipf import Order, Zipf
from pollerd.lab.experiments.experiment import Size

WHITTLE = "whittle"
KNOWING = {
    "optimal, rates known": Policy("optimal", told_rates=True),
    "proportional, rates known": Policy("proportional", told_rates=True),
}
ANY_SIZE = {
    WHITTLE: Policy("whittle"),
    "htraa": Policy("htraa"),
    "htraa as in [A]": Policy("htraa", parameters=(("reorder", False),)),
    "lakg": Policy("lakg"),
    "optimal, rates learned": Policy("optimal"),
    "proportional, rates learned": Policy("proportional"),
    "estimator": Policy("estimator"),
    "uniform": Policy("uniform"),
}
UP_TO_30_PAGES = {"lspe": Policy("lspe")}
TWO_PAGES = {name: Policy(name) for name in ("ucb1", "ucb1-raw", "thompson", "gp-ucb")}
GPOKS = {"gpoks": Policy("gpoks", parameters=(("forgetting", "none"),))}
"""As it was measured, before it forgot; the experiment gpoks-switching has both."""
POLLS_A_PAGE: Mapping[int, Mapping[Size, int]] = {
    512: {"quick": 4, "full": 40},
    30: {"quick": 40, "full": 200},
    8: {"quick": 40, "full": 200},
    2: {"quick": 200, "full": 500},
}
"""Polls a page, by number of pages."""
SWITCH_EVERY = {512: 1000, 30: 1000, 8: 400, 2: 100}
"""Polls between two rank switches, if any, by number of pages: [A]'s r, more frequent on few pages."""
ZIPFS = dict.fromkeys((512, 30, 2), ((0.3, 1.5), (0.3, 1.0), (0.9, 1.5))) | {8: ((0.3, 1.0), (0.6, 1.0), (0.9, 1.5))}
"""α and β by number of pages: [A]'s, and [B]'s for eight."""
PAIRS = ((0.55, 0.45), (0.75, 0.25), (0.90, 0.10))
"""[B]'s two materials, p of each."""


@dataclass(frozen=True)
class WebEnvironment:
    """A web. web: α/β or p/p, as in the papers; quick: whether the quick size includes it."""

    name: str
    web: str
    zipf: Zipf
    quick: bool

    def polls_a_page(self, size: Size) -> int:
        """Returns the number of polls a page; 0 if the size leaves it out."""
        return POLLS_A_PAGE[self.zipf.pages][size] if self.quick or size == "full" else 0

    @property
    def figure(self) -> str:
        """Name of its figure, "ours-web-512-0.9-1.5-static"."""
        how = "switching" if self.zipf.switch_every else "static"
        return f"ours-web-{self.zipf.pages}-{self.web.replace('/', '-')}-{how}"

    @property
    def learners(self) -> dict[str, Policy]:
        """Policies without the true rates that are made for this number of pages.

        gpoks takes some milliseconds a poll with many pages: of the webs of 512 it has only the shuffled ones.
        """
        zipf = self.zipf
        policies = dict(ANY_SIZE)
        if zipf.pages <= 30 or zipf.order == "shuffled":
            policies |= GPOKS
        if zipf.pages <= 30:
            policies |= UP_TO_30_PAGES
        return policies | TWO_PAGES if zipf.pages == 2 else policies

    @property
    def competitors(self) -> dict[str, Policy]:
        """All policies, those with the true rates first."""
        return {**KNOWING, **self.learners}


def _environment(zipf: Zipf, web: str, place: str) -> WebEnvironment:
    """Creates an environment; place: `web` as written in its name."""
    how = f"switching every {zipf.switch_every:,} polls" if zipf.switch_every else "static"
    quick = zipf.alpha == 0.9 and zipf.order == "shuffled" and not (zipf.switch_every and zipf.pages == 512)
    return WebEnvironment(f"{zipf.pages} {zipf.order} pages, {place}, {how}", web, zipf, quick)


def _environments() -> Iterator[WebEnvironment]:
    """Yields 512 pages in all of [A]'s environments, shuffled and sorted; 30, 8 and 2 pages shuffled; [B]'s pairs."""
    orders: dict[int, tuple[Order, ...]] = {512: ("shuffled", "sorted")}
    for pages in POLLS_A_PAGE:
        for every in (0, SWITCH_EVERY[pages]):
            for order in orders.get(pages, ("shuffled",)):
                for alpha, beta in ZIPFS[pages]:
                    zipf = Zipf(pages, alpha, beta, order, switch_every=every)
                    yield _environment(zipf, f"{alpha}/{beta}", f"α {alpha}, β {beta}")
    for every in (0, SWITCH_EVERY[2]):
        for first, second in PAIRS:
            web = f"{first:.2f}/{second:.2f}"
            zipf = Zipf(2, first, math.log2(first / second), "shuffled", switch_every=every)
            yield _environment(zipf, web, f"p {web}")


ENVIRONMENTS = tuple(_environments())
