"""What becomes of a difference, poll by poll, without a daemon: late second polls, wide masks, several contents."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from msgspec.structs import replace

from pollerd.allocation import registry
from pollerd.daemon.control.sites import SiteRemoval
from pollerd.daemon.proofs import WHOLE_PAGE, Candidates, Ruling, held, status_of
from pollerd.daemon.prover import Prover
from pollerd.daemon.runtime import Runtime
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.daemon.stages import Answer, Candidate, Found, ProofResult
from pollerd.detection.detect import detect
from pollerd.model import Baseline, Outcome, OutcomeKind
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.site_settings import NO_ACCESS, Access, SiteSpec
from pollerd.storage.values import SiteContext

AT, URL = 1_000_000.0, "http://a.example/"


def text(*lines: str) -> bytes:
    return "\n".join(("A page", "with a line above", *lines, "a line below", "and an end")).encode()


class World:
    """One site, and the polls of it."""

    def __init__(
        self,
        body: bytes,
        interval: float = 1.0,
        budget: float = 1.0,
        *,
        media: str = "text/plain",
        access: Access = NO_ACCESS,
    ) -> None:
        self.access = access
        settings = SchedulingSettings(min_saving_seconds=0, host_interval_seconds=interval)
        allocator = registry.create("uniform", budget=budget, objective="changes", rng=np.random.default_rng(1))
        self.scheduler = SchedulerState(settings=settings, allocator_name="uniform", allocator=allocator)
        self.scheduler.add([1], [(1, "a.example:80")], [SiteSpec(URL)])
        self.sites = self.scheduler.sites
        runtime = SimpleNamespace(workers=None, clock=lambda: AT, faults=None)
        self.prover = Prover(scheduler=self.scheduler, runtime=cast(Runtime, cast(Any, runtime)))
        self._type = media
        first = detect(outcome(body, 0.0, media), Baseline(), None)
        assert first.content is not None
        self.before, self.baseline = first.content, first.baseline
        self.candidate: Candidate | None = None

    def poll(self, body: bytes, after: float, dated: float | None = None) -> Found:
        got = outcome(body, after, self._type)
        found = detect(got, self.baseline, 60.0 + after)
        context = SiteContext(1, URL, baseline=self.baseline, access=self.access)
        return Found(Answer(0, context, got), found, dated_at=None if dated is None else AT + dated)

    async def judged(
        self, body: bytes, after: float, *, chosen: bool = True, dated: float | None = None
    ) -> Ruling | None:
        """What becomes of a poll so many seconds after the first; one that is held becomes the candidate.

        dated: s after the first poll of the change that a signal source dated.
        """
        if chosen:
            self.sites.proofs.choose([0])
        result = self.poll(body, after, dated)
        rulings = await self.prover.rulings(result, {WHOLE_PAGE: self.before}, self.candidate)
        if rulings is not None:
            return rulings[WHOLE_PAGE]
        counts = self.candidate is not None and (chosen or self.prover.is_prompt(result, self.candidate))
        proof = held(result, self.candidate, counts=counts).proof
        assert proof is not None
        self.candidate = proof.waiting
        self.sites.proofs.ask(0, AT)
        return None


def outcome(body: bytes, after: float, media: str = "text/plain") -> Outcome:
    return Outcome(OutcomeKind.BODY, AT + after, 0.1, 200, len(body), body, media)


def feed(minute: int) -> bytes:
    """A feed, one entry of which was edited in this minute."""
    dates = {"one": "Sat, 17 Jul 2021 06:13:46 GMT", "two": f"Sat, 17 Jul 2021 10:{minute:02d}:10 GMT"}
    items = "".join(
        f"<item><guid>{name}</guid><title>Item {name}</title><pubDate>{date}</pubDate></item>"
        for name, date in dates.items()
    )
    return f"<rss version='2.0'><channel><title>News</title>{items}</channel></rss>".encode()


def served(number: int) -> str:
    return f"Request {number * 7919 % 10**8:08d} was served"


async def test_a_second_poll_that_comes_late_proves_what_it_finds_again() -> None:
    world = World(text("old"))
    assert await world.judged(text("new"), 0.0) is None
    ruling = await world.judged(text("new"), 5_000.0)
    assert ruling is not None
    assert (ruling.quiet, ruling.same, ruling.unproven, ruling.baseline.proven) == (False, True, "", True)


async def test_two_late_polls_that_differ_are_recorded_as_unproven() -> None:
    world = World(text("old", served(1)))
    assert await world.judged(text("old", served(2)), 0.0) is None
    assert await world.judged(text("old", served(3)), 31.0) is None
    ruling = await world.judged(text("old", served(4)), 62.0)
    assert ruling is not None
    assert (ruling.result, ruling.quiet, ruling.baseline.proven) == (ProofResult.UNPROVEN, False, False)
    assert "too late" in ruling.unproven


async def test_polls_that_were_not_chosen_as_proofs_do_not_end_the_waiting() -> None:
    world = World(text("old", served(1)))
    for number in range(5):
        assert await world.judged(text("old", served(2 + number)), 100.0 * number, chosen=False) is None
    ruling = await world.judged(text("old", served(9)), 401.0)
    assert ruling is not None
    assert (ruling.result, ruling.quiet) == (ProofResult.NOISE, True)


@pytest.mark.parametrize(
    ("interval", "budget", "after", "decides"),
    [
        (1.0, 1.0, 29.0, True),
        (1.0, 1.0, 31.0, False),
        (60.0, 1.0, 119.0, True),
        (60.0, 1.0, 121.0, False),
        (1.0, 0.01, 199.0, True),
        (1.0, 0.01, 201.0, False),
    ],
)
async def test_what_is_prompt_goes_by_the_turns_of_host_and_budget(
    interval: float, budget: float, after: float, decides: bool
) -> None:
    world = World(text("old", served(1)), interval, budget)
    assert await world.judged(text("old", served(2)), 0.0) is None
    assert (await world.judged(text("old", served(3)), after) is not None) is decides


async def test_a_change_beside_noise_is_found_by_its_first_proof() -> None:
    world = World(text("old", served(1)))
    assert await world.judged(text("new", served(2)), 0.0) is None
    ruling = await world.judged(text("new", served(3)), 2.0)
    assert ruling is not None
    assert (ruling.quiet, ruling.same, ruling.result) == (False, True, ProofResult.CHANGE)
    assert ruling.baseline.mask


async def test_a_mask_that_hides_any_order_is_confirmed_by_another_poll() -> None:
    lines = ["the first of the items", "a second one here", "and then the third", "the fourth is last"]
    orders = [lines, lines[::-1], [*lines[2:], *lines[:2]], [lines[1], lines[3], lines[0], lines[2]]]
    world = World(text(*orders[0]))
    assert await world.judged(text(*orders[1]), 0.0) is None
    assert await world.judged(text(*orders[2]), 2.0) is None
    ruling = await world.judged(text(*orders[3]), 4.0)
    assert ruling is not None
    assert (ruling.quiet, ruling.result) == (True, ProofResult.NOISE)


async def test_a_page_that_is_rearranged_twice_in_a_moment_is_no_noise() -> None:
    lines = ["the first of the items", "a second one here", "and then the third", "the fourth is last"]
    world = World(text(*lines))
    assert await world.judged(text(*lines[::-1]), 0.0) is None
    rearranged = text(*lines[2:], *lines[:2])
    assert await world.judged(rearranged, 2.0) is None
    ruling = await world.judged(rearranged, 4.0)
    assert ruling is not None
    assert (ruling.quiet, ruling.result, ruling.baseline.mask) == (False, ProofResult.CHANGE, b"")


async def test_an_entry_that_is_edited_twice_in_a_moment_is_no_noise() -> None:
    world = World(feed(1), media="application/rss+xml")
    assert await world.judged(feed(2), 0.0) is None
    assert await world.judged(feed(3), 2.0) is None
    ruling = await world.judged(feed(3), 4.0)
    assert ruling is not None
    assert (ruling.quiet, ruling.result, ruling.baseline.mask) == (False, ProofResult.CHANGE, b"")


async def test_an_entry_that_has_another_date_at_every_poll_is_noise_by_the_third() -> None:
    world = World(feed(1), media="application/rss+xml")
    assert await world.judged(feed(2), 0.0) is None
    assert await world.judged(feed(3), 2.0) is None
    ruling = await world.judged(feed(4), 4.0)
    assert ruling is not None
    assert (ruling.quiet, ruling.result, bool(ruling.baseline.mask)) == (True, ProofResult.NOISE, True)


async def test_a_new_entry_beside_noise_that_is_known_needs_no_third_poll() -> None:
    world = World(feed(1), media="application/rss+xml")
    assert await world.judged(feed(2), 0.0) is None
    assert await world.judged(feed(3), 2.0) is None
    ruling = await world.judged(feed(4), 4.0)
    assert ruling is not None
    seen = detect(outcome(feed(4), 4.0, "application/rss+xml"), Baseline(), None).content
    assert seen is not None
    world.baseline, world.before, world.candidate = replace(ruling.baseline, proven=False), seen, None
    item = b"<item><guid>three</guid><title>Item three</title></item></channel>"
    assert await world.judged(feed(5).replace(b"</channel>", item), 60.0) is None
    ruling = await world.judged(feed(6).replace(b"</channel>", item), 62.0)
    assert ruling is not None
    assert (ruling.quiet, ruling.result) == (False, ProofResult.CHANGE)


async def test_a_page_that_a_source_says_changed_again_gets_no_mask() -> None:
    world = World(text("price 1 today"))
    assert await world.judged(text("price 2 today"), 0.0, dated=-3.0) is None
    ruling = await world.judged(text("price 3 today"), 2.0, dated=1.0)
    assert ruling is not None
    assert (ruling.quiet, ruling.same, ruling.result) == (False, None, ProofResult.UNPROVEN)
    assert "says that it changed again" in ruling.unproven
    assert (ruling.baseline.mask, ruling.baseline.proven) == (b"", True)


async def test_what_a_source_announced_waits_for_what_it_says_of_a_difference() -> None:
    """The list is read after the second poll only: what it dates between the polls is heard of at the third."""
    world = World(text("price 1 today"))
    for second, dated in ((0.0, -3.0), (2.0, -3.0)):
        assert await world.judged(text(f"price {20 + second} today"), second, dated=dated) is None
    ruling = await world.judged(text("price 9 today"), 4.0, dated=1.0)
    assert ruling is not None
    assert (ruling.baseline.mask, ruling.result) == (b"", ProofResult.UNPROVEN)


async def test_noise_of_a_page_whose_source_says_nothing_more_is_masked() -> None:
    world = World(text("price 1 today"))
    found = [await world.judged(text(f"price {20 + n} today"), 2.0 * n, dated=-3.0) for n in range(5)]
    assert found[:-1] == [None] * 4
    ruling = found[-1]
    assert ruling is not None
    assert ruling.baseline.mask
    assert ruling.result is ProofResult.NOISE


async def test_a_change_that_was_announced_and_is_found_again_is_proven_at_once() -> None:
    world = World(text("price 1 today"))
    assert await world.judged(text("price 2 today"), 0.0, dated=-3.0) is None
    ruling = await world.judged(text("price 2 today"), 2.0, dated=1.0)
    assert ruling is not None
    assert (ruling.same, ruling.result, ruling.baseline.mask) == (True, ProofResult.CHANGE, b"")


async def test_what_waits_is_bounded_and_belongs_to_what_it_was_held_against() -> None:
    world = World(text("old"))
    assert await world.judged(text("new" * 1_000), 0.0) is None
    assert world.candidate is not None
    context = world.candidate.result.context
    kept = Candidates(most_bytes=12_000)
    for site_id in range(1, 6):
        moved = _moved(world.candidate, SiteContext(site_id, URL, baseline=context.baseline))
        kept.put(Candidate(moved, 0.0))
    assert [site_id in kept for site_id in range(1, 6)] == [False, False, False, True, True]
    there = SiteContext(5, URL, baseline=context.baseline)
    assert kept.get(there) is not None
    assert kept.get(SiteContext(5, URL + "other", baseline=context.baseline)) is None
    assert kept.get(SiteContext(5, URL, baseline=Baseline(fingerprint=b"x" * 16))) is None
    kept.drop(5)
    kept.drop(5)
    assert kept.get(there) is None
    huge = Candidates(most_bytes=10)
    huge.put(Candidate(world.candidate.result, 0.0))
    assert huge.get(context) is not None, "the newest is kept, or it would never be proven"


def _moved(candidate: Candidate, context: SiteContext) -> Found:
    """What the candidate found, at another site."""
    found = candidate.result
    return Found(Answer(0, context, found.outcome), found.detection)


def test_a_site_is_as_unproven_as_its_selections() -> None:
    noise = Ruling(Baseline(), quiet=True, same=True, result=ProofResult.NOISE)
    unproven = Ruling(Baseline(), same=False, unproven="unproven: why", result=ProofResult.UNPROVEN)
    assert status_of([Ruling(Baseline())]) is None
    both = status_of([noise, unproven])
    assert both is not None
    assert (both.result, both.same, both.unproven) == (ProofResult.UNPROVEN, False, "unproven: why")


POSTED = Access(body="q=1")


async def test_a_posted_change_is_proven_by_the_next_regular_poll() -> None:
    world = World(text("old"), access=POSTED)
    assert await world.judged(text("new"), 0.0, chosen=False) is None
    ruling = await world.judged(text("new"), 5_000.0, chosen=False)
    assert ruling is not None
    assert (ruling.quiet, ruling.result, ruling.unproven) == (False, ProofResult.CHANGE, "")


async def test_a_posted_change_that_differs_again_is_recorded_at_once() -> None:
    world = World(text("old", served(1)), access=POSTED)
    assert await world.judged(text("old", served(2)), 0.0, chosen=False) is None
    ruling = await world.judged(text("old", served(3)), 5_000.0, chosen=False)
    assert ruling is not None
    assert (ruling.result, ruling.quiet) == (ProofResult.UNPROVEN, False)
    assert "a POST is not sent for a proof" in ruling.unproven


async def test_a_posted_page_that_is_polled_often_is_proven_as_others() -> None:
    world = World(text("old", served(1)), access=POSTED)
    assert await world.judged(text("old", served(2)), 0.0, chosen=False) is None
    ruling = await world.judged(text("old", served(3)), 20.0, chosen=False)
    assert ruling is not None
    assert (ruling.result, ruling.quiet) == (ProofResult.NOISE, True)


async def test_a_removed_site_frees_its_waiting_change() -> None:
    world = World(text("old"))
    assert await world.judged(text("new"), 0.0) is None
    assert world.candidate is not None
    candidates = Candidates()
    candidates.put(world.candidate)
    forgetful = cast(Any, SimpleNamespace(forget=lambda _: None, abandon=lambda _: None))
    removal = SiteRemoval(
        scheduler=world.scheduler,
        site_cache=forgetful,
        in_flight=forgetful,
        hook=forgetful,
        candidates=candidates,
        announcer=forgetful,
    )
    removal.remove(1)
    assert (len(candidates), len(world.sites.proofs)) == (0, 0)
