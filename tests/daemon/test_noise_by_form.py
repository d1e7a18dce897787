"""Noise by form and by alternation in a live daemon; what is hidden is counted, and shown again by one call."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from aiohttp import web
from msgspec.structs import replace

from pollerd.api.inputs import check_selections
from pollerd.daemon.proofs import WHOLE_PAGE
from pollerd.daemon.prover import FLIPS_ENOUGH, Alternation
from pollerd.daemon.stages import ProofResult
from pollerd.detection.noise.learning import (
    learn_from_pair,
    noise_by_form,
    noise_by_row,
    refused_rules,
    rules_of,
    with_rule,
)
from pollerd.detection.noise.mask import KnownBy
from pollerd.errors import NotFoundError
from pollerd.model import Baseline, OutcomeKind
from tests.daemon.conftest import Running, Start
from tests.daemon.test_prover import World, text
from tests.support.origin import Origin, Page

BUDGET = 40.0


def changing(origin: Origin, path: str, lines: Callable[[int], list[str]], *, every: int = 2) -> None:
    """A page whose lines go on at each so manyth request, so that a proof may see what the poll before saw."""
    asked = 0

    async def answer(_: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        body = "".join(f"<p>{line}</p>" for line in lines(asked // every))
        return web.Response(text=f"<html><body><h1>Forum</h1>{body}</body></html>", content_type="text/html")

    origin.pages[path] = Page(handler=answer)


async def more(running: Running, site: int, times: int = 12) -> None:
    await running.polled(site, len(await running.polls(site)) + times)


async def test_ages_and_counters_are_no_changes_and_what_comes_beside_them_is(
    start: Start, origin: Origin, any_database: str
) -> None:
    news: list[str] = []
    changing(origin, "/f", lambda n: ["Post", f"{n + 2} minutes ago", f"{n * 3:,} views", *news])
    async with start(budget=BUDGET, url=any_database) as running:
        (site,) = await running.add(origin.url("/f"))
        await more(running, site)
        assert await running.changes() == []
        listed = (await running.control.sites.explain(site)).noise
        assert {(one.id, one.known_by, one.hidden) for one in listed} == {
            ("relative-time", KnownBy.FORM, True),
            ("view-counter", KnownBy.FORM, True),
        }
        assert all(one.differed and one.polls and one.differed <= one.polls for one in listed)
        counted = (await running.site(site)).hidden_changes
        assert 0 < counted <= len(await running.polls(site))
        assert running.metric("pollerd_hidden_changes_total") == counted, "the same polls in the metric and at the site"
        news.append("Breaking news")
        await more(running, site)
        (found,) = await running.changes()
        assert "Breaking news" in found.summary
        assert "ago" not in found.summary
    async with start(budget=BUDGET, url=any_database) as running:
        await more(running, site)
        assert [change.id for change in await running.changes()] == [found.id]
        assert (await running.site(site)).hidden_changes > counted


async def test_what_a_selection_reads_is_never_noise_by_form(start: Start, origin: Origin) -> None:
    changing(origin, "/f", lambda n: [f"{n} views"], every=4)
    keep = check_selections({"default": {"steps": [{"keep": {"css": "p"}}]}})
    async with start(budget=BUDGET) as running:
        (site,) = await running.add(origin.url("/f"), selections=keep)
        await more(running, site, 20)
        assert len(await running.changes()) > 1


async def test_a_form_that_is_shown_again_counts_until_it_is_hidden_again(
    start: Start, origin: Origin, any_database: str
) -> None:
    changing(origin, "/f", lambda n: ["Post", f"{n * 3:,} views"])
    async with start(budget=BUDGET, url=any_database) as running:
        (site,) = await running.add(origin.url("/f"))
        await more(running, site)
        shown = await running.control.sites.hide_noise(site, "view-counter", hidden=False)
        assert [(one.id, one.hidden) for one in shown.noise] == [("view-counter", False)]
        await more(running, site)
        found = await running.changes()
        assert found
        assert "views" in found[0].summary
        with pytest.raises(NotFoundError):
            await running.control.sites.hide_noise(site, "relative-time", hidden=False)
    async with start(budget=BUDGET, url=any_database) as running:
        await more(running, site)
        assert len(await running.changes()) > len(found)
        await running.control.sites.hide_noise(site, "view-counter", hidden=True)
        await running.settled()
        before = len(await running.changes())
        await more(running, site)
        assert len(await running.changes()) <= before + 1  # of the poll that was under way


@pytest.mark.parametrize("selections", ["", check_selections({"default": {"steps": [{"keep": {"css": "p"}}]}})])
async def test_a_place_that_a_proof_hid_is_shown_again_for_good(start: Start, origin: Origin, selections: str) -> None:
    changing(origin, "/p", lambda n: ["Post", f"Release {n} of the thing", "The end"], every=1)
    async with start(budget=BUDGET) as running:
        (site,) = await running.add(origin.url("/p"), selections=selections)
        await more(running, site)
        (hidden,) = [one for one in (await running.control.sites.explain(site)).noise if one.hidden]
        assert (hidden.known_by, hidden.selection) == (KnownBy.PROOF, "default" if selections else None)
        before = len(await running.changes())
        await running.control.sites.hide_noise(site, hidden.id, hidden=False)
        await more(running, site, 20)
        noise = (await running.control.sites.explain(site)).noise
        assert [(one.id, one.hidden) for one in noise] == [(hidden.id, False)]
        changes = await running.changes()
        assert len(changes) > before + 3
        assert "Release" in changes[-1].summary


def test_a_mask_that_hides_the_same_as_before_makes_no_change_of_it() -> None:
    """As after a call during a poll: what was stored is of another mask."""
    verdict = noise_by_form(b"5 views\nx\ny", b"6 views\nx\ny", Baseline(), None, 10.0)
    assert verdict is not None
    other = replace(verdict.baseline, fingerprint=b"of another mask")
    again = noise_by_form(b"5 views\nx\ny", b"6 views\nx\ny", other, None, 10.0)
    assert again is not None
    assert again.only_noise
    assert noise_by_form(b"5 views\nx\ny", b"6 views\nx\nz", other, None, 10.0) is None


def test_a_page_that_is_nothing_else_keeps_its_changes() -> None:
    assert noise_by_form(b"5 views", b"6 views", Baseline(), None, 10.0) is None


def test_a_clock_is_known_by_the_times_of_two_polls_and_never_doubted() -> None:
    at = 1_795_876_320.0  # 14:32 UTC
    before, after = b"News\nIt is 14:32 now\nThe end", b"News\nIt is 14:33 now\nThe end"
    verdict = noise_by_form(before, after, Baseline(), at + 50.0, at + 65.0)
    assert verdict is not None
    assert verdict.only_noise
    (rule,) = rules_of(verdict.baseline.mask)
    assert rule.by is KnownBy.FORM
    assert noise_by_form(before, after, Baseline(), at + 50.0, at + 965.0) is None
    assert noise_by_form(before, after, Baseline(), None, at + 65.0) is None


def test_a_refused_place_is_not_learned_again() -> None:
    first, second = text("token 17 served", "x"), text("token 23 served", "x")
    learned = learn_from_pair(first, second, Baseline(), text("token 9 served", "x")).baseline
    (rule,) = rules_of(learned.mask)
    refused = with_rule(learned, second, rule.id, hidden=False)
    assert refused is not None
    again = learn_from_pair(first, text("token 99 served", "x"), refused, second)
    assert rules_of(again.baseline.mask) == ()
    assert refused_rules(again.baseline.mask) == (rule,)
    back = with_rule(refused, second, rule.id, hidden=True)
    assert back is not None
    assert (rules_of(back.mask), refused_rules(back.mask), back.fingerprint) == ((rule,), (), learned.fingerprint)


def test_a_refused_form_is_not_learned_as_a_place() -> None:
    first, second, third = (text(f"{n} views", "x") for n in (5, 6, 7))
    learned = noise_by_form(first, second, Baseline(), None, 10.0)
    assert learned is not None
    refused = with_rule(learned.baseline, second, "view-counter", hidden=False)
    assert refused is not None
    assert rules_of(learn_from_pair(second, third, refused, first).baseline.mask) == ()
    row = [(60.0 * n, text(f"{n} views", "x")) for n in range(6)]
    assert noise_by_row(row, Baseline()) is not None
    assert noise_by_row(row, refused) is None


async def alternate(world: World, one: bytes, other: bytes, times: int) -> list[ProofResult | None]:
    """Judges so many pairs of polls that show the other text and then the one that is stored."""
    results = []
    for n in range(times):
        world.candidate = None
        assert await world.judged(other, 100.0 * n) is None
        ruling = await world.judged(one, 100.0 * n + 2.0)
        assert ruling is not None
        assert ruling.quiet
        results.append(ruling.result)
        if ruling.flip is not None:
            world.prover.alternation.note_flip(1, world.baseline.mask, ruling.flip)
        if ruling.baseline.mask:
            (rule,) = rules_of(ruling.baseline.mask)
            assert rule.by is KnownBy.ALTERNATION
    return results


async def test_a_place_alternates_only_after_five_flips_between_known_values() -> None:
    one, other = text("Buy now for less"), text("Order it from us and save")
    results = await alternate(World(one), one, other, FLIPS_ENOUGH + 1)
    assert results == [*[ProofResult.REVERTED] * FLIPS_ENOUGH, ProofResult.NOISE]


async def test_a_state_never_alternates() -> None:
    one, other = text("In stock"), text("Sold out")
    assert set(await alternate(World(one), one, other, 3 * FLIPS_ENOUGH)) == {ProofResult.REVERTED}


async def test_a_page_that_changes_to_known_values_again_and_again_is_proven_though_it_is_trusted() -> None:
    world = World(text("Buy now for less"))
    world.baseline = replace(world.baseline, proven=True)
    found = world.poll(text("Order it from us and save"), 0.0)
    assert world.prover.believes(found)
    assert found.detection is not None
    fingerprint = found.detection.baseline.fingerprint or b""
    for _ in range(2):
        world.prover.alternation.note_change(1, b"", fingerprint)
    assert not world.prover.believes(found)
    assert await world.prover.rulings(found, {WHOLE_PAGE: world.before}, None) is None


def test_a_page_that_comes_and_goes_for_real_is_not_proven_for_ever() -> None:
    alternation = Alternation()
    suspected = 0
    for n in range(40):
        suspected += alternation.suspects(1, b"", b"open" if n % 2 else b"closed")
        alternation.note_change(1, b"", b"open" if n % 2 else b"closed")
    assert suspected == FLIPS_ENOUGH
    alternation.note_flip(1, b"", (b"open", b"closed"))
    assert alternation.suspects(1, b"", b"open")


def test_values_that_are_always_new_are_no_alternation() -> None:
    alternation = Alternation()
    for n in range(100):
        alternation.note_flip(1, b"", (b"%d" % n, b"%d" % (n + 1)))
        alternation.note_change(1, b"", b"%d" % n)
        assert not alternation.is_noise(1, b"", (b"%d" % (n + 1), b"%d" % (n + 2)))
        assert not alternation.suspects(1, b"", b"%d" % (n + 1))


async def test_a_form_is_told_from_a_change_in_the_first_poll_that_differs(start: Start, origin: Origin) -> None:
    """No second poll is spent on it."""
    changing(origin, "/f", lambda n: ["Post", f"vor {n + 2} Minuten"])
    async with start(budget=BUDGET) as running:
        (site,) = await running.add(origin.url("/f"))
        await more(running, site)
        assert {poll.outcome for poll in await running.polls(site)} == {OutcomeKind.FIRST, OutcomeKind.UNCHANGED}


async def test_what_moves_at_each_recorded_change_as_counters_do_is_noise_by_their_row(
    start: Start, origin: Origin
) -> None:
    """Its form is none by itself; a number that grows elsewhere stays a change."""
    changing(origin, "/row", lambda n: ["Post", f"read by {n + 5} of you so far", "The end"], every=4)
    changing(origin, "/other", lambda n: ["Post", f"bought by {n + 5} of you so far", "The end"], every=4)
    async with start(budget=BUDGET) as running:
        row, other = await running.add(origin.url("/row"), origin.url("/other", host=2))
        for site in (row, other):
            await running.polled(site, 80)
        (rule,) = (await running.control.sites.explain(row)).noise
        assert rule.known_by is KnownBy.ROW
        found = [change.site_id for change in await running.changes()]
        assert found.count(row) < 15 < found.count(other)


def test_a_row_needs_each_of_its_changes() -> None:
    times = [0.0, 60.0, 120.0, 180.0, 240.0, 300.0]
    running = [b"Shop\nWait: %d min\nThe end" % (3 + n) for n in range(6)]
    verdict = noise_by_row(list(zip(times, running, strict=True)), Baseline())
    assert verdict is not None
    assert verdict.only_noise
    (rule,) = rules_of(verdict.baseline.mask)
    assert rule.by is KnownBy.ROW
    running[2] = b"Shop\nWait: 45 min\nThe end"
    assert noise_by_row(list(zip(times, running, strict=True)), Baseline()) is None
    prices = [b"Shop\nOnly 3 min: %d \xe2\x82\xac\nThe end" % (3 + n) for n in range(6)]
    assert noise_by_row(list(zip(times, prices, strict=True)), Baseline()) is None
