"""The small web: what it answers, by a clock that the test moves."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from dataclasses import dataclass

import aiohttp
import numpy as np
import pytest
import yarl

from pollerd.app.demo_web import ROBOTS_TXT, DemoSite, DemoWeb, SiteKind, bursty_times, draw_sites, poisson_times
from pollerd.detection.detect import detect
from pollerd.errors import InvalidValueError
from pollerd.model import Baseline, Outcome, OutcomeKind

START = 1_800_000_000.0
HORIZON = 3_600.0


@dataclass
class Clock:
    """A clock that stands still until it is moved."""

    now: float = START

    def __call__(self) -> float:
        return self.now


@dataclass
class Visit:
    """The web, a client and the clock."""

    web: DemoWeb
    client: aiohttp.ClientSession
    clock: Clock

    def site(self, kind: SiteKind, *, lively: bool = True) -> DemoSite:
        found = [site for site in self.web.sites if site.kind is kind]
        return max(found, key=lambda site: site.true_rate_per_second * (1 if lively else -1))

    def after_change(self, site: DemoSite, number: int = 0) -> float:
        """A moment just after the change of this number."""
        return float(self.web.truth(START + HORIZON)[site.url][number]) + 1e-3

    async def get(self, url: str, **headers: str) -> tuple[aiohttp.ClientResponse, bytes]:
        async with self.client.get(url, headers={name.replace("_", "-"): v for name, v in headers.items()}) as response:
            return response, await response.read()


@pytest.fixture
async def visit() -> AsyncIterator[Visit]:
    clock = Clock()
    web = DemoWeb(16, np.random.default_rng(3), horizon_seconds=HORIZON, clock=clock)
    async with web, aiohttp.ClientSession() as client:
        yield Visit(web, client, clock)


def detected(body: bytes, response: aiohttp.ClientResponse, before: Baseline) -> tuple[OutcomeKind, Baseline]:
    outcome = Outcome(
        OutcomeKind.BODY, START, 0.01, response.status, body=body, content_type=response.headers["Content-Type"]
    )
    detection = detect(outcome, before, None if before.fingerprint is None else 60.0)
    return detection.kind, detection.baseline


@pytest.mark.parametrize(
    "kind",
    [
        SiteKind.ETAG,
        SiteKind.PLAIN,
        SiteKind.LAST_MODIFIED,
        SiteKind.BURSTY,
        SiteKind.FEED,
    ],
)
async def test_the_visible_content_changes_when_the_truth_says_so_and_only_then(visit: Visit, kind: SiteKind) -> None:
    site = visit.site(kind)
    baseline, kinds, bodies = Baseline(), [], []
    for moment in (START, visit.after_change(site) - 2e-3, visit.after_change(site)):
        visit.clock.now = moment
        response, body = await visit.get(site.url)
        found, baseline = detected(body, response, baseline)
        kinds.append(found)
        bodies.append(body)
    assert kinds == [OutcomeKind.FIRST, OutcomeKind.UNCHANGED, OutcomeKind.CHANGED]
    assert bodies[0] != bodies[1], "noise that nobody sees differs from answer to answer"


async def test_the_site_that_always_changes_does_so_at_every_request(visit: Visit) -> None:
    site, baseline, kinds = visit.site(SiteKind.ALWAYS), Baseline(), []
    for _ in range(3):
        response, body = await visit.get(site.url)
        found, baseline = detected(body, response, baseline)
        kinds.append(found)
    assert kinds == [OutcomeKind.FIRST, OutcomeKind.CHANGED, OutcomeKind.CHANGED]
    assert math.isinf(site.true_rate_per_second)
    assert len(visit.web.truth(START + HORIZON)[site.url]) == 0


async def test_an_etag_holds_until_the_page_changes(visit: Visit) -> None:
    site = visit.site(SiteKind.ETAG)
    first, _ = await visit.get(site.url)
    again, body = await visit.get(site.url, If_None_Match=first.headers["ETag"])
    assert (again.status, body, again.headers["ETag"]) == (304, b"", first.headers["ETag"])
    visit.clock.now = visit.after_change(site)
    changed, body = await visit.get(site.url, If_None_Match=first.headers["ETag"])
    assert changed.status == 200
    assert body
    assert changed.headers["ETag"] != first.headers["ETag"]


async def test_last_modified_names_the_second_of_the_last_change(visit: Visit) -> None:
    site = visit.site(SiteKind.LAST_MODIFIED)
    first, _ = await visit.get(site.url)
    assert "ETag" not in first.headers
    again, _ = await visit.get(site.url, If_Modified_Since=first.headers["Last-Modified"])
    assert again.status == 304
    visit.clock.now = visit.after_change(site)
    changed, _ = await visit.get(site.url, If_Modified_Since=first.headers["Last-Modified"])
    assert changed.status == 200
    from_header = aiohttp.helpers.parse_http_date(changed.headers["Last-Modified"])
    assert from_header is not None
    assert from_header.timestamp() == math.floor(visit.clock.now - 1e-3)


async def test_plain_sites_have_no_validators(visit: Visit) -> None:
    response, _ = await visit.get(visit.site(SiteKind.PLAIN).url)
    assert not {"ETag", "Last-Modified"} & set(response.headers)


async def test_the_feed_grows_by_one_entry_a_change_up_to_its_window(visit: Visit) -> None:
    site = visit.site(SiteKind.FEED)
    counts = []
    for moment in (START, visit.after_change(site, 0), visit.after_change(site, 2), visit.after_change(site, 100)):
        visit.clock.now = moment
        _, body = await visit.get(site.url)
        counts.append(body.count(b"<item>"))
    assert counts == [5, 6, 8, 20]


async def bare_answer(site: DemoSite) -> bytes:
    """What comes over a bare connection (a client would try again by itself); b"" where it is reset."""
    reader, writer = await asyncio.open_connection(site.host, yarl.URL(site.url).port)
    try:
        writer.write(f"GET {site.path} HTTP/1.1\r\nHost: {site.host}\r\nConnection: close\r\n\r\n".encode())
        return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def test_the_flaky_site_fails_in_each_of_its_ways_and_answers_in_between(visit: Visit) -> None:
    site = visit.site(SiteKind.FLAKY)
    answers = [await bare_answer(site) for _ in range(200)]
    assert {answer.partition(b"\r\n")[0] for answer in answers} == {
        b"HTTP/1.1 200 OK",
        b"HTTP/1.1 500 Internal Server Error",
        b"HTTP/1.1 503 Service Unavailable",
        b"",
    }
    assert all(b"Retry-After: 2" in answer for answer in answers if answer[9:10] == b"5")


async def test_one_host_has_a_robots_txt_for_two_sites(visit: Visit) -> None:
    open_site, denied = visit.site(SiteKind.ROBOTS), visit.site(SiteKind.DENIED)
    assert open_site.host == denied.host
    base = open_site.url.removesuffix("/")
    response, body = await visit.get(f"{base}/robots.txt")
    assert (response.status, body.decode()) == (200, ROBOTS_TXT)
    other = visit.site(SiteKind.ETAG)
    response, _ = await visit.get(other.url.removesuffix(other.path) + "/robots.txt")
    assert response.status == 404


async def test_first_answers_are_those_with_content(visit: Visit) -> None:
    site = visit.site(SiteKind.PLAIN)
    assert visit.web.first_answers() == {}
    visit.clock.now += 5
    await visit.get(site.url)
    visit.clock.now += 5
    await visit.get(site.url)
    assert visit.web.first_answers() == {site.url: START + 5}


async def test_truth_is_what_happened_up_to_the_moment_asked_for(visit: Visit) -> None:
    site = visit.site(SiteKind.ETAG)
    everything = visit.web.truth(START + HORIZON)[site.url]
    assert (np.diff(everything) >= 0).all()
    assert everything[0] >= START
    assert visit.web.truth(START - 1)[site.url].tolist() == []
    assert visit.web.truth(float(everything[3]))[site.url].tolist() == everything[:4].tolist()


async def test_the_same_seed_draws_the_same_web_and_two_run_side_by_side(visit: Visit) -> None:
    async with DemoWeb(16, np.random.default_rng(3), horizon_seconds=HORIZON, clock=Clock()) as twin:
        assert [site.address for site in twin.sites] == [site.address for site in visit.web.sites]
        mine, its = visit.web.truth(START + HORIZON), twin.truth(START + HORIZON)
        assert [times.tolist() for times in its.values()] == [times.tolist() for times in mine.values()]


def test_sites_have_hosts_of_their_own_and_rates_from_seconds_to_hours() -> None:
    sites = draw_sites(36, 8000, np.random.default_rng(0))
    assert len(sites) == len({site.url for site in sites}) == 36
    assert len({site.host for site in sites}) == 35
    assert all(site.url.startswith(f"http://127.{site.host[4:]}:8000/") for site in sites)
    means = [1 / site.true_rate_per_second for site in sites if site.kind is not SiteKind.ALWAYS]
    assert min(means) == pytest.approx(2.5)
    assert max(means) == pytest.approx(4 * 3_600)
    dated = [site for site in sites if site.kind is SiteKind.LAST_MODIFIED]
    assert dated
    assert all(site.true_rate_per_second <= 0.1 for site in dated)


@pytest.mark.parametrize("count", [11, 201, -1])
def test_too_few_or_too_many_sites_are_refused(count: int) -> None:
    with pytest.raises(InvalidValueError, match="12 to 200"):
        DemoWeb(count, np.random.default_rng(0))


@pytest.mark.parametrize("seconds", [0.0, math.inf, math.nan])
def test_a_horizon_that_cannot_be_is_refused(seconds: float) -> None:
    with pytest.raises(InvalidValueError, match="horizon_seconds"):
        DemoWeb(12, np.random.default_rng(0), horizon_seconds=seconds)


@pytest.mark.parametrize("seed", range(5))
def test_both_processes_have_the_rate_asked_for(seed: int) -> None:
    # 20,000 changes expected: the Poisson count has a standard deviation of 0.7 %, the bursty one (mean burst 5,
    # geometric, so E[size²]/E[size] = 9) of 2.1 %. Five of them: a false alarm in under 10^-5 of all seeds.
    rng = np.random.default_rng(seed)
    plain, bursty = poisson_times(0.5, 0.0, 40_000.0, rng), bursty_times(0.5, 0.0, 40_000.0, rng)
    assert len(plain) == pytest.approx(20_000, rel=0.036)
    assert len(bursty) == pytest.approx(20_000, rel=0.11)
    assert np.median(np.diff(bursty)) < np.median(np.diff(plain))
    for times in (plain, bursty):
        assert (np.diff(times) >= 0).all()
        assert times[0] >= 0
        assert times[-1] < 40_000
