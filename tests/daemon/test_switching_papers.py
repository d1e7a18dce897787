"""The papers' allocators take over in the live daemon; a bandit for two sites does not with three."""

from __future__ import annotations

import pytest

from pollerd.errors import InvalidValueError
from tests.daemon.conftest import Start
from tests.storage.samples import learned_of
from tests.support.origin import Origin, Page, until


@pytest.mark.parametrize(
    ("pages", "polls", "names"),
    [
        (8, 16, ("lakg", "estimator", "proportional", "optimal", "gpoks", "lspe", "whittle")),
        (2, 10, ("ucb1-raw", "ucb1", "thompson", "gp-ucb")),
    ],
    ids=["of any number of sites", "bandits of two"],
)
async def test_one_after_the_other_under_load(
    pages: int, polls: int, names: tuple[str, ...], origin: Origin, start: Start
) -> None:
    for n in range(pages):
        origin.pages[f"/{n}"] = Page(f"<p>{n}</p>")
    async with start(allocator="uniform") as running:
        ids = await running.add(*(origin.url(f"/{n}", host=n) for n in range(pages)))
        for name in (*names, "uniform"):
            wanted = running.control.health.status().polls + polls
            await until(lambda wanted=wanted: running.control.health.status().polls >= wanted, 60.0)  # type: ignore[misc]
            assert (await running.control.allocation.set(allocator=name)).allocator == name
            site_ids, _ = await learned_of(running.store, name)
            assert sorted(site_ids.tolist()) == ids


async def test_a_bandit_of_two_takes_no_third_site(origin: Origin, start: Start) -> None:
    for n in range(3):
        origin.pages[f"/{n}"] = Page(f"<p>{n}</p>")
    async with start(allocator="ucb1") as running:
        await running.add(*(origin.url(f"/{n}", host=n) for n in range(2)))
        assert await running.add(origin.url("/2", host=2)) == []
        await running.control.allocation.set(allocator="gpoks")
        assert len(await running.add(origin.url("/2", host=2))) == 1
        with pytest.raises(InvalidValueError, match="at most 2 while ucb1 allocates"):
            await running.control.allocation.set(allocator="ucb1")
