"""Wrong tokens: how many an address may send, and that it locks out nobody else for long."""

from __future__ import annotations

import pytest

from pollerd.api.auth.limits import BURST, FAMILIAR_BURST, MAX_ADDRESSES, WrongTokens
from pollerd.api.auth.middleware import counted_address
from pollerd.api.settings import ApiSettings, digest_of
from tests.api.conftest import Api, NewApi

FULL = "full-token"
RIGHT, WRONG = digest_of(FULL), digest_of("wrong")


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def guess(tokens: WrongTokens, address: str, times: int) -> int:
    """How many of so many wrong tokens are compared."""
    compared = 0
    for _ in range(times):
        if tokens.wait(address, WRONG) == 0:
            compared += 1
            tokens.wrong(address)
    return compared


def test_a_burst_then_one_a_second(clock: Clock) -> None:
    tokens = WrongTokens(clock)
    assert guess(tokens, "192.0.2.1", 1000) == BURST
    assert tokens.wait("192.0.2.1", RIGHT) == pytest.approx(1.0)
    compared = 0
    for _ in range(1000):
        clock.now += 0.1
        compared += guess(tokens, "192.0.2.1", 3)
    assert compared == pytest.approx(100, abs=1)
    clock.now += 3600
    assert guess(tokens, "192.0.2.1", 1000) == BURST, "a long rest is worth no more than a burst"


def test_others_are_not_held_up(clock: Clock) -> None:
    tokens = WrongTokens(clock)
    guess(tokens, "192.0.2.1", 1000)
    assert tokens.wait("192.0.2.2", RIGHT) == 0


def test_what_was_right_there_before_is_still_looked_at(clock: Clock) -> None:
    """Unless the flood is one: then nothing is compared that could be guessed at."""
    tokens = WrongTokens(clock)
    tokens.right("192.0.2.1", RIGHT)
    assert guess(tokens, "192.0.2.1", BURST + FAMILIAR_BURST // 2) == BURST
    assert tokens.wait("192.0.2.1", RIGHT) == 0
    assert tokens.wait("192.0.2.1", WRONG) > 0
    guess(tokens, "192.0.2.1", 10 * FAMILIAR_BURST)
    assert tokens.wait("192.0.2.1", RIGHT) > 0
    clock.now += 0.1
    assert tokens.wait("192.0.2.1", RIGHT) == 0


def test_the_table_is_bounded(clock: Clock) -> None:
    tokens = WrongTokens(clock)
    for n in range(MAX_ADDRESSES + 100):
        tokens.wrong(str(n))
        tokens.right(str(n), RIGHT)
    assert tokens.addresses == (MAX_ADDRESSES, MAX_ADDRESSES)
    for n in range(100):
        tokens.right("192.0.2.1", digest_of(str(n)))
    while not tokens.wrong("192.0.2.1"):
        pass
    at_once = [n for n in range(99, 69, -1) if tokens.wait("192.0.2.1", digest_of(str(n))) == 0]
    assert at_once == [99, 98, 97, 96], "only the latest right tokens are compared over the limit"


@pytest.mark.parametrize(
    ("peer", "counted"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::ffff", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
        ("", ""),
        ("/run/pollerd.sock", ""),
    ],
)
def test_what_counts_as_one_address(peer: str, counted: str) -> None:
    assert counted_address(peer) == counted


@pytest.fixture
async def guarded(new_api: NewApi) -> Api:
    return await new_api(ApiSettings.listening("127.0.0.1:0", token=FULL))


async def ask(api: Api, token: str, path: str = "/sites", **headers: str) -> int:
    reply = await api("GET", path, headers={"Authorization": f"Bearer {token}", **headers})
    if reply.status == 429:
        assert int(reply.headers["Retry-After"]) >= 1
        assert reply.headers["Content-Type"] == "application/problem+json"
        assert reply.json["type"] == "urn:pollerd:problem:too-many-wrong-tokens"
    return reply.status


async def test_guessing_is_slowed_down(guarded: Api) -> None:
    said = [await ask(guarded, f"guess-{n}") for n in range(BURST)]
    assert said == [401] * BURST
    assert 429 in [await ask(guarded, f"more-{n}") for n in range(2 * BURST)]
    assert (await guarded("GET", "/sites")).status == 401, "no token is no guess"
    assert (await guarded("GET", "//readyz")).status == 200


async def test_no_header_makes_another_address(guarded: Api) -> None:
    """Neither does a call that is always answered: it is no way to guess either."""
    said = [await ask(guarded, f"guess-{n}", **{"X-Forwarded-For": f"192.0.2.{n}"}) for n in range(3 * BURST)]
    assert 429 in said
    for n in range(3 * BURST):
        assert await ask(guarded, f"guess-{n}", "//metrics") == 200
    told = await guarded("GET", "//metrics", headers={"Authorization": f"Bearer {FULL}"})
    assert b'version=""' in told.body


async def test_who_was_known_there_goes_on(guarded: Api) -> None:
    assert await ask(guarded, FULL) == 200
    for n in range(2 * BURST):
        await ask(guarded, f"guess-{n}")
    assert await ask(guarded, FULL) == 200
