"""Several nodes: reads may be told to any; the node that polls the site goes by what was learned."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

import pytest

from pollerd.storage.reads import ReportedRead
from tests.daemon.test_nodes import node, sites_of
from tests.daemon.test_reads import AGES, DAY, HOUR
from tests.daemon.test_signals_across_nodes import pages_of_both, pause
from tests.storage.samples import poll_all
from tests.support.origin import Origin, until
from tests.support.postgres import postgres_database


@pytest.fixture
def database() -> Iterator[str]:
    with postgres_database() as url:
        yield url


async def test_what_any_node_is_told_reaches_the_holder_and_goes_with_the_partition(
    database: str, origin: Origin
) -> None:
    async with node("a", database) as a:
        async with node("b", database) as b:
            urls = await pages_of_both(a, b, origin)
            of_a, of_b = min(sites_of(a)), min(sites_of(b))
            await pause(a, b, urls)
            now = time.time()
            for holder, site in ((a, of_a), (b, of_b)):
                for i in range(1, 11):
                    await poll_all(holder.store, [site], now - DAY * (12 - i), f"{i}".encode(), changed=True)
            told = [
                ReportedRead(now - DAY * (12 - i) + HOUR * age, site_id=site)
                for site in (of_a, of_b)
                for i in range(1, 11)
                for age in AGES
            ]
            result = await a.control.reads.report("one for both", told)
            assert result.counts.taken == 120
            assert set(result.half_lives) == {of_a, of_b}
            assert (await b.control.reads.report("one for both", told)).repeated

            def learned(of: object, site: int) -> float:
                sites = of.daemon.parts.scheduler.sites  # type: ignore[attr-defined]
                slot = sites.slot_of(site)
                return math.nan if slot is None else float(sites.learned_half_life[slot])

            assert learned(a, of_a) == result.half_lives[of_a]
            await until(lambda: learned(b, of_b) == result.half_lives[of_b])
            shown = (await a.control.sites.shown([of_a, of_b])) | {}
            assert [shown[site].learned_half_life for site in (of_a, of_b)] == [
                result.half_lives[site] for site in (of_a, of_b)
            ]
            await b.control.reads.forget(of_a)
            await until(lambda: math.isnan(learned(a, of_a)))
        await until(lambda: of_b in sites_of(a))
        assert learned(a, of_b) == result.half_lives[of_b]
