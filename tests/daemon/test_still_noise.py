"""Rules of a mask that were learned from changes of the page are given up once what they hide stands still."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, cycle, islice

import numpy as np
import pytest
from numpy.typing import NDArray

from pollerd.allocation.baselines import Uniform
from pollerd.daemon.prover import ENOUGH, StillNoise
from pollerd.daemon.stages import Answer, Found, ProofStatus
from pollerd.detection.detect import detect
from pollerd.detection.noise.learning import learn_from_pair, without_rules
from pollerd.detection.noise.learning import noise_of_pair as noise_of
from pollerd.detection.selection.selection import canonical
from pollerd.model import Baseline, Detection, Outcome, OutcomeKind
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.storage.values import SiteContext
from tests.daemon.conftest import Start
from tests.daemon.test_proofs import CHANGED, PROVING, UNCHANGED, Script, outcomes
from tests.support.origin import Origin

URL = "http://a.example/"


def outcome(body: bytes, media: str = "text/plain") -> Outcome:
    return Outcome(OutcomeKind.BODY, 1_000.0, 0.1, 200, len(body), body, media)


def text(token: object, edited: object) -> bytes:
    """A page with two places that a mask may hide."""
    lines = ("A page", f"served as {token}", "between", "the two", "of them", f"price {edited} today", "The end")
    return "\n".join(lines).encode()


def masked(*pair: bytes, media: str = "text/plain") -> tuple[bytes, Baseline]:
    """Returns a content and its baseline, under the mask that two polls teach."""
    first, second = (detect(outcome(body, media), Baseline(), None) for body in pair)
    assert first.content is not None
    assert second.content is not None
    baseline = learn_from_pair(first.content, second.content, second.baseline, None).baseline
    assert baseline.mask
    return second.content, baseline


class Watched:
    """A site with a mask, and its polls."""

    def __init__(self, baseline: Baseline, *, selections: str = "", media: str = "text/plain") -> None:
        self.context = SiteContext(1, URL, baseline=baseline, selections=selections)
        self.still, self._media = StillNoise(), media

    def poll(self, body: bytes | None, *, date_believed: bool = False) -> list[int]:
        """Notes a poll, of a page that is not modified if there is no body. Returns which rules the next gives up."""
        answer = outcome(body, self._media) if body else Outcome(OutcomeKind.NOT_MODIFIED, 1_000.0, 0.1, 304)
        found = detect(answer, self.context.baseline, 60.0)
        result = Found(Answer(0, self.context, answer), found, date_believed=date_believed)
        self.still.note(result)
        return self.still.doubted(result)

    def lifted(self) -> None:
        """Notes that rules were given up; the same are learned again."""
        found = Detection(OutcomeKind.UNCHANGED, self.context.baseline)
        self.still.note(Found(Answer(0, self.context, outcome(b"")), found, proof=ProofStatus(lifted=True)))

    def number(self, bodies: Iterator[bytes | None], most: int = 2_000) -> int | None:
        """Returns after how many polls a rule is given up; None: not within so many."""
        return next((n for n, body in enumerate(islice(bodies, most), 1) if self.poll(body)), None)


def _both() -> Baseline:
    return masked(text(1, 5), text(22, 66))[1]


def test_of_two_rules_only_the_one_that_stands_still_is_given_up() -> None:
    site = Watched(_both())
    assert len(noise_of(site.context.baseline.mask)) == 2
    doubted = [site.poll(text(token, 7)) for token in range(ENOUGH + 1)]
    assert doubted[:-1] == [[]] * ENOUGH
    (rule,) = doubted[-1]
    assert "price" in noise_of(site.context.baseline.mask)[rule]


def test_without_the_rule_the_stored_content_differs_from_what_was_hidden() -> None:
    content, baseline = masked(text(1, 5), text(22, 66))
    rule = next(i for i, line in enumerate(noise_of(baseline.mask)) if "price" in line)
    after = without_rules(baseline, content, [rule])
    assert (after.proven, after.raw_fingerprint, len(noise_of(after.mask))) == (False, None, 1)
    assert detect(outcome(text(3, 66)), after, 60.0).kind is OutcomeKind.UNCHANGED
    assert detect(outcome(text(3, 67)), baseline, 60.0).kind is OutcomeKind.UNCHANGED
    assert detect(outcome(text(3, 67)), after, 60.0).kind is OutcomeKind.CHANGED


def test_a_page_that_is_not_modified_stands_still() -> None:
    assert Watched(_both()).number(cycle([None])) == ENOUGH


def test_the_same_bytes_stand_still() -> None:
    site = Watched(_both())
    body = text(3, 3)
    site.context = SiteContext(1, URL, baseline=detect(outcome(body), site.context.baseline, 60.0).baseline)
    assert site.number(cycle([body])) == ENOUGH


def test_what_is_another_at_each_request_is_kept() -> None:
    assert Watched(_both()).number(text(n, n) for n in count()) is None


@pytest.mark.parametrize("values", [2, 3])
def test_noise_that_takes_its_values_in_turn_is_kept(values: int) -> None:
    assert Watched(_both()).number(text(n % values, n % values) for n in count()) is None


def test_noise_of_two_values_is_kept_where_each_comes_twice() -> None:
    assert Watched(_both()).number(text(n // 2 % 2, n // 2 % 2) for n in count()) is None


def test_a_place_that_is_edited_at_every_third_poll_is_given_up() -> None:
    number = Watched(_both()).number(text(n, n // 3) for n in count())
    assert number is not None
    assert ENOUGH < number <= 3 * ENOUGH


def test_a_relative_time_is_never_given_up() -> None:
    baseline = masked(b"News\nupdated 2 hours ago\nThe end", b"News\nupdated 3 hours ago\nThe end")[1]
    assert "relative time" in noise_of(baseline.mask)[0]
    assert Watched(baseline).number(cycle([None]), 100) is None


def test_an_entry_of_a_feed_is_given_up_though_it_is_edited_at_every_other_poll() -> None:
    def feed(minute: int) -> bytes:
        dates = {"one": "06:13:46", "two": f"10:{minute:02d}:10"}
        items = "".join(
            f"<item><guid>{name}</guid><title>Item {name}</title><pubDate>Sat, 17 Jul 2021 {date} GMT</pubDate></item>"
            for name, date in dates.items()
        )
        return f"<rss version='2.0'><channel><title>News</title>{items}</channel></rss>".encode()

    rss = "application/rss+xml"
    site = Watched(masked(feed(1), feed(2), media=rss)[1], media=rss)
    assert site.number(feed(n // 2 % 60) for n in count(6)) == 2 * ENOUGH


def test_what_differs_when_a_source_announces_a_change_is_given_up() -> None:
    site = Watched(_both())
    polls = [site.poll(text(7, n), date_believed=True) for n in range(ENOUGH)]
    rule = next(i for i, line in enumerate(noise_of(site.context.baseline.mask)) if "price" in line)
    assert polls.index([rule]) == ENOUGH // 4, "the first has nothing to be compared with"


def test_noise_beside_a_change_that_a_source_announces_is_kept() -> None:
    site = Watched(_both())
    bodies = (text(n, n).replace(b"of them", b"of %d of them" % n) for n in count())
    assert all(site.poll(body, date_believed=True) == [] for body in islice(bodies, 100))


def test_noise_is_kept_where_one_poll_in_seven_was_announced_in_vain() -> None:
    site = Watched(_both())
    assert all(site.poll(text(n, n), date_believed=n % 7 == 0) == [] for n in range(500))


def test_what_is_enough_doubles_each_time() -> None:
    site = Watched(_both())
    found = []
    for _ in range(3):
        found.append(site.number(cycle([None])))
        site.lifted()
    assert found == [ENOUGH, 2 * ENOUGH, 4 * ENOUGH]


def test_a_new_mask_begins_anew() -> None:
    site = Watched(_both())
    for _ in range(ENOUGH - 1):
        assert site.poll(None) == []
    site.context = SiteContext(1, URL, baseline=masked(text("ab12", 8), text("cd34", 99))[1])
    assert site.context.baseline.mask != _both().mask
    assert site.number(cycle([None])) == ENOUGH


def test_a_site_with_selections_is_left_alone() -> None:
    site = Watched(_both(), selections=canonical({"default": {"steps": []}}))
    assert site.number(cycle([None]), 100) is None
    assert len(site.still) == 0


def html(edited: int) -> str:
    return f"<html><body><h1>Shop</h1><p>A line above</p><p>It costs {edited} today</p><p>The end</p></body></html>"


async def test_changes_of_a_place_that_a_mask_hid_are_found_again(start: Start, origin: Origin) -> None:
    """The page is edited at both polls of a proof, then stands still, and changes at that place again."""
    still = [html(3)] * (ENOUGH + 6)
    Script(origin, "/p", html(1), html(2), html(3), *still, html(4))
    async with start(
        scheduling=SchedulingSettings(min_interval_seconds=0.01, min_saving_seconds=0, host_interval_seconds=0)
    ) as running:
        (site,) = await running.add(origin.url("/p"))
        found = await outcomes(running, site, 3 + len(still) + 2)
        changes = await running.changes()
        hidden = (await running.control.sites.explain(site)).mask
        learned = running.metric("pollerd_masks_learned_total")
    assert found[1:3] == [PROVING, UNCHANGED], "the edit is taken for noise"
    assert found[3 : 3 + ENOUGH + 1] == [UNCHANGED] * (ENOUGH + 1)
    assert found[4 + ENOUGH : 6 + ENOUGH] == [PROVING, CHANGED], "what was hidden is found late"
    assert len(changes) == 2
    assert "costs 1 → 3" in changes[0].summary
    assert "costs 3 → 4" in changes[1].summary
    assert (hidden, learned) == ((), 1)


async def test_what_was_learned_under_rules_that_are_given_up_is_forgotten(
    start: Start, origin: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Polls that found nothing because a mask hid the changes say nothing of the page."""
    forgotten: list[list[int]] = []
    remove = Uniform.remove

    def recorded(allocator: Uniform, slots: NDArray[np.int64]) -> None:
        forgotten.append(slots.tolist())
        remove(allocator, slots)

    monkeypatch.setattr(Uniform, "remove", recorded)
    still = [html(3)] * (ENOUGH + 3)
    Script(origin, "/p", html(1), html(2), html(3), *still)
    async with start(
        scheduling=SchedulingSettings(min_interval_seconds=0.01, min_saving_seconds=0, host_interval_seconds=0)
    ) as running:
        (site,) = await running.add(origin.url("/p"))
        await running.polled(site, 3)
        assert forgotten == []
        await running.polled(site, 3 + len(still))
        slot = running.daemon.parts.scheduler.sites.slot_of(site)
    assert forgotten == [[slot]]
