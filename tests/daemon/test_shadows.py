"""Allocators in shadow: in step with the fleet, judged under one belief, dropped where they fail, harming nobody."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import numpy as np
import pytest
from numpy.typing import NDArray

from pollerd.allocation.automata.htraa import Htraa
from pollerd.allocation.baselines import Uniform
from pollerd.allocation.evidence import EvidenceBatch
from pollerd.daemon import shadows as shadows_module
from pollerd.daemon.shadows import ShadowAllocator
from pollerd.daemon.views import ShadowView
from pollerd.errors import DatabaseUnavailableError, InvalidValueError
from pollerd.storage.values import PollColumns
from tests.daemon.conftest import Running, Start
from tests.support.origin import Origin, Page, until

PATIENCE_SECONDS = 60.0


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadows_module, "EVERY_SECONDS", 0.1)
    monkeypatch.setattr(shadows_module, "SHARE", 1.0)


def pages(origin: Origin, number: int = 6) -> list[str]:
    for n in range(number):
        origin.pages[f"/{n}"] = Page("<p>calm</p>")
    return [origin.url(f"/{n}", host=n) for n in range(number)]


async def more_polls(running: Running, number: int) -> None:
    wanted = running.control.health.status().polls + number
    await until(lambda: running.control.health.status().polls >= wanted, PATIENCE_SECONDS)


def shown(running: Running) -> dict[str, ShadowView]:
    return {view.allocator: view for view in running.control.allocation.view().shadows}


async def counts_all(running: Running, shadow: ShadowAllocator, ids: list[int]) -> None:
    """Waits until the H-TRAA has counted all polls that are stored, and sees that it counts no more.

    What is taken from the commands is still being taught by a thread.
    """
    polls = [poll for site_id in ids for poll in await running.polls(site_id)]
    informative = len([poll for poll in polls if poll.elapsed is not None and poll.outcome.informative])
    slots = running.daemon.parts.scheduler.sites.slots_of(np.array(ids))

    def counted() -> int:
        assert isinstance(shadow.allocator, Htraa)
        return int(shadow.allocator.counted_polls(slots).sum())

    await until(lambda: counted() >= informative, PATIENCE_SECONDS)
    await asyncio.sleep(0.3)
    assert counted() == informative


async def following(running: Running, *names: str) -> None:
    await until(lambda: {n for n, v in shown(running).items() if v.state == "following"} >= {*names}, PATIENCE_SECONDS)


async def test_shadows_learn_what_was_stored_and_what_comes(origin: Origin, start: Start) -> None:
    async with start(allocator="whittle") as running:
        ids = await running.add(*pages(origin))
        await more_polls(running, 40)
        await running.control.allocation.set(shadows=["htraa", "uniform"])
        await following(running, "htraa", "uniform")
        await running.control.sites.delete(ids.pop(0))
        ids += await running.add(origin.url("/1", host=17))
        await running.control.sites.update(ids[0], {"half_life": 50.0})
        await more_polls(running, 40)
        for site_id in ids:
            await running.control.sites.pause(site_id, True)
        await running.settled()
        held = {shadow.name: shadow for shadow in running.daemon.parts.shadows.allocators}
        await until(lambda: not any(len(shadow.commands) for shadow in held.values()), PATIENCE_SECONDS)
        await counts_all(running, held["htraa"], ids)
        assert {view.state for view in shown(running).values()} == {"following"}
        await running.control.sites.pause(ids[0], False)
        await until(lambda: running.metric("pollerd_expected_detections_per_second", policy="shadow:htraa") > 0)
        view = await running.control.allocation.set(shadows=[])
        assert view.shadows == ()
        policies = {s.labels.get("policy") for family in running.registry.collect() for s in family.samples}
        assert not any(str(policy).startswith("shadow") for policy in policies)


async def test_a_shadow_that_cannot_hold_the_sites_is_refused(origin: Origin, start: Start) -> None:
    async with start(allocator="whittle") as running:
        ids = await running.add(*pages(origin))
        await running.control.sites.update(ids[3], {"weight": 2.0})
        with pytest.raises(InvalidValueError, match="weight"):
            await running.control.allocation.set(shadows=["htraa"])
        for names in (["whittle"], ["uniform", "uniform"], ["guess"]):
            with pytest.raises(InvalidValueError, match="shadows"):
                await running.control.allocation.set(shadows=names)
        assert running.control.allocation.view().shadows == ()


class _Raising(Uniform):
    def observe(
        self, slots: NDArray[np.int64], elapsed: NDArray[np.float64], evidence: EvidenceBatch, now: float
    ) -> None:
        raise RuntimeError("no more")


async def test_a_shadow_that_raises_is_dropped_and_the_polling_goes_on(
    origin: Origin, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with start(allocator="whittle") as running:
        await running.add(*pages(origin))
        monkeypatch.setattr(
            "pollerd.daemon.shadows.registry.create",
            lambda name, *, budget, objective, rng, deadline: _Raising(budget),
        )
        await running.control.allocation.set(shadows=["uniform"])
        await until(lambda: shown(running)["uniform"].state == "dropped", PATIENCE_SECONDS)
        assert shown(running)["uniform"].reason == "no more"
        await more_polls(running, 20)


async def test_who_takes_charge_leaves_the_shadows(origin: Origin, start: Start) -> None:
    async with start(allocator="whittle", shadows=("uniform", "htraa")) as running:
        await running.add(*pages(origin))
        await following(running, "uniform", "htraa")
        await running.control.allocation.set(allocator="uniform")
        assert list(shown(running)) == ["htraa"]
        await following(running, "htraa")
        assert shown(running)["htraa"].expected_detections_per_hour is None, "uniform believes nothing of rates"


async def test_a_shadow_whose_polls_cannot_be_read_begins_anew(
    origin: Origin, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it was taught before the database went away counts once."""
    async with start(allocator="whittle") as running:
        ids = await running.add(*pages(origin))
        await more_polls(running, 40)
        await running.control.sites.pause(ids[0], True)
        read, cut = running.store.history.recent_polls, list[int]()

        async def cut_off(*, through: int | None = None) -> AsyncIterator[PollColumns]:
            async for polls in read(through=through):
                yield polls
                if len(cut) < 2:
                    cut.append(1)
                    raise DatabaseUnavailableError("connection was closed in the middle of operation")

        monkeypatch.setattr(running.store.history, "recent_polls", cut_off)
        await running.control.allocation.set(shadows=["htraa"])
        await until(lambda: shown(running)["htraa"].state == "following", PATIENCE_SECONDS)
        assert len(cut) == 2
        for site_id in ids:
            await running.control.sites.pause(site_id, True)
        await running.settled()
        (shadow,) = running.daemon.parts.shadows.allocators
        await until(lambda: not len(shadow.commands), PATIENCE_SECONDS)
        await counts_all(running, shadow, ids)
