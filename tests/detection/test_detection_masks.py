"""Masks: what two fetches differ in is hidden, and nothing else."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Callable

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pollerd.detection.edits import Gap
from pollerd.detection.noise.alignment import crossings, gaps
from pollerd.detection.noise.learning import learn
from pollerd.detection.noise.mask import BYTES_MAX, NO_MASK, RULES_MAX, Mask, apply, from_bytes, to_bytes, units
from pollerd.detection.noise.templates import MARK, MARK_END, TokenKind, shape, tokens
from pollerd.detection.normalise import normalise
from pollerd.errors import InvalidValueError

HEAD = ["Acme weekly", "Home", "News", "Latest news", "Mayor opens bridge", "Price: 12"]
TAIL = ["Weather", "Rain until Friday", "Price: 15", "Imprint", "Contact us"]
INNERMOST = re.compile(MARK + b"(?:(?!" + MARK + b").)*?" + MARK_END, re.DOTALL)

Noise = Callable[[random.Random], list[str]]


def page(*noise: str, head: list[str] = HEAD, tail: list[str] = TAIL) -> bytes:
    return "\n".join([*head, *noise, *tail]).encode()


def hex_token(rng: random.Random) -> str:
    return f"{rng.getrandbits(64):016x}"


def shuffled(rng: random.Random, lines: list[str]) -> list[str]:
    return rng.sample(lines, len(lines))


def clock(rng: random.Random) -> str:
    return f"{rng.randint(10, 23)}:{rng.randint(10, 59)}:{rng.randint(10, 59)}"


ADVERTS = [f"{word} is what you have always wanted" for word in ["Soap", "Shoes", "Tea", "Wine", "Cheese", "Bread"]]
PARTNERS = ["Borg", "Initech", "Hooli", "Tyrell", "Umbrella", "Wayne"]

KINDS: dict[str, Noise] = {
    "clock": lambda rng: [f"Page served at Sat, {rng.randint(10, 28)} Nov 2026 {clock(rng)} GMT"],
    "clock and token": lambda rng: [f"Served {clock(rng)} ({hex_token(rng)[:6]}a1)"],
    "number on its own": lambda rng: [str(rng.randint(0, 10**6))],
    "counter": lambda rng: [f"You are visitor {rng.randint(1, 10**6):,}"],
    "session": lambda rng: [f"https://example.net/?sid={hex_token(rng)}&v={rng.getrandbits(40)}"],
    "relative time": lambda rng: [f"Updated {rng.randint(2, 59)} minutes ago"],
    "labelled text": lambda rng: [f"Sponsored: {rng.choice(ADVERTS)} {rng.random()}"],
    "advert": lambda rng: [f"{rng.choice('ABCDEFGH')}{hex_token(rng)} {' '.join(shuffled(rng, PARTNERS))}"],
    "adverts": lambda rng: ["Advert", *rng.sample(ADVERTS, rng.randint(1, 4)), "Close"],
    "any order": lambda rng: ["Partners", *shuffled(rng, PARTNERS), "All partners"],
    "any order in a line": lambda rng: ["Tags: " + ", ".join(shuffled(rng, PARTNERS))],
    "any order with numbers": lambda rng: [
        "Partners",
        *shuffled(rng, [f"{name}: {rng.randint(1, 999)} points" for name in PARTNERS]),
        "All partners",
    ],
}


def two_fetches(kind: str, seed: int) -> tuple[bytes, bytes]:
    rng = random.Random(seed)
    return page(*KINDS[kind](rng)), page(*KINDS[kind](rng))


def outside(masked: bytes) -> list[bytes]:
    """The pieces of a masked content that are not hidden."""
    # Twice, because a block in any order may have lines with noise of their own.
    return INNERMOST.sub(b"\0", INNERMOST.sub(b"\0", masked)).split(b"\0")


def same(mask: Mask, *contents: bytes) -> bool:
    return len({apply(content, mask).content for content in contents}) == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(20))
def test_twins_are_the_same_under_what_they_taught(kind: str, seed: int) -> None:
    a, b = two_fetches(kind, seed)
    assert same(learn(a, b), a, b)


@pytest.mark.parametrize("kind", KINDS)
def test_one_more_fetch_is_hidden_as_well_after_some_twins(kind: str) -> None:
    rng = random.Random(kind)
    mask = NO_MASK
    for _ in range(6):
        mask = learn(page(*KINDS[kind](rng)), page(*KINDS[kind](rng)), mask)
    assert same(mask, *(page(*KINDS[kind](rng)) for _ in range(50)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("line", range(len(HEAD) + len(TAIL)))
@pytest.mark.parametrize("edit", ["changed", "removed", "doubled"])
def test_a_change_of_any_other_line_shows(kind: str, line: int, edit: str) -> None:
    a, b = two_fetches(kind, 3)
    mask = learn(a, b)
    lines = [*HEAD, *TAIL]
    lines[line : line + 1] = {"changed": [lines[line] + "!"], "removed": [], "doubled": [lines[line]] * 2}[edit]
    cut = len(HEAD) + (edit != "changed") * ((line < len(HEAD)) * (1 if edit == "doubled" else -1))
    noise = KINDS[kind](random.Random(9))
    after = page(*noise, head=lines[:cut], tail=lines[cut:])
    assert not same(mask, page(*noise), after)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_outside_stays_byte_for_byte(kind: str) -> None:
    a, b = two_fetches(kind, 5)
    left = outside(apply(b, learn(a, b)).content)
    at = 0
    for piece in left:
        for line in filter(None, piece.strip(b"\n").split(b"\n")):
            at = b.index(line, at)
    for text in [*HEAD, *TAIL]:
        assert text.encode() in b"\n".join(left)


def test_a_masked_clock_hides_only_what_has_its_shape() -> None:
    mask = learn(page("Now 12:31:05"), page("Now 12:31:07"))
    assert same(mask, page("Now 23:59:59"), page("Now 0:00:00"))
    for other in ("Now 12:31", "Now 2026-11-21", "Now closed", "Then 12:31:05", "Now 12:31:05!", "Now 12:31:05 UTC"):
        assert not same(mask, page("Now 12:31:05"), page(other))


def test_a_masked_token_hides_only_codes_of_its_length() -> None:
    mask = learn(page("id ab12cd"), page("id 34ef56"))
    assert same(mask, page("id 000000"), page("id abcdef"))
    for other in ("id ab12c", "id zz12cd", "id ab12cd ab12cd", "id none"):
        assert not same(mask, page("id ab12cd"), page(other))


def test_a_number_that_stood_still_is_no_noise_beside_one_that_did_not() -> None:
    mask = learn(page("Price: 12", "7"), page("Price: 12", "8"))
    assert same(mask, page("Price: 12", "9"), page("Price: 12", "10"))
    assert not same(mask, page("Price: 12", "9"), page("Price: 13", "9"))


def test_lines_of_which_all_are_noise_are_noise_wherever_they_stand() -> None:
    def listing(*ids: int, rng: random.Random) -> bytes:
        return json.dumps([{"id": n, "stamp": rng.getrandbits(50), "title": f"item {n}"} for n in ids]).encode()

    def content(*ids: int, seed: int) -> bytes:
        return normalise(listing(*ids, rng=random.Random(seed)), "application/json").content

    mask = learn(content(1, 2, 3, seed=1), content(1, 2, 3, seed=2))
    assert same(mask, content(4, 2, 3, 5, seed=3), content(4, 2, 3, 5, seed=4))
    assert not same(mask, content(4, 2, 3, seed=3), content(4, 2, 5, seed=3))


def test_json_xml_and_feeds_are_masked_alike() -> None:
    def bodies(n: int) -> dict[str, bytes]:
        stamp, token = 1_763_755_200 + n, f"{n * 7919:08x}"
        item = f"<item><guid>1</guid><title>News</title><description>Fine. {n} views</description></item>"
        return {
            "application/json": json.dumps({"at": stamp, "token": token, "price": 12}).encode(),
            "application/xml": f"<r><at>{stamp}</at><price>12</price><token>{token}</token></r>".encode(),
            "application/rss+xml": f"<rss version='2.0'><channel>{item}</channel></rss>".encode(),
        }

    for media in bodies(0):
        a, b, c = (normalise(bodies(n)[media], media).content for n in (1234, 4321, 98765))
        assert a != b
        assert same(learn(a, b), a, b, c)


def test_what_held_still_until_the_twins_is_a_change_between_them() -> None:
    a, b = page("Effective: March 25, 2026", "Open"), page("Effective: June 11, 2026", "Open")
    assert learn(a, b, before=a) == NO_MASK
    assert learn(a, b, before=page("Effective: May 2, 2026", "Open")) != NO_MASK


def test_another_page_in_place_of_a_twin_teaches_nothing() -> None:
    a = page("7")
    assert learn(a, b"Are you human?\nSolve 12 + 7", before=page("6")) == learn(a, page("8"), before=a) == NO_MASK


def test_a_page_of_noise_alone_is_told() -> None:
    rng = random.Random(1)
    a, b = ("\n".join(hex_token(rng) * 2 for _ in range(9)).encode() for _ in range(2))
    found = apply(a, learn(a, b))
    assert found.all_noise
    assert (found.size, found.hidden) == (len(a), len(a) - a.count(b"\n"))
    assert not apply(page("7"), learn(page("7"), page("8"))).all_noise


def test_a_structure_that_changed_is_told_and_relearned() -> None:
    old = learn(page("7"), page("8"))
    moved = [page(head=["New design", *HEAD[:3], str(n), *HEAD[3:]]) for n in range(3)]
    assert apply(page("9"), old).missing == 0
    assert apply(moved[0], old).missing == 1
    new = learn(moved[0], moved[1], old)
    assert same(new, *moved)


def test_a_rule_without_a_place_is_forgotten_after_three_twins() -> None:
    mask = learn(page("7"), page("8"))
    other = ["Other", "design", "altogether"]
    described = mask.describe()
    for n, known in enumerate((True, True, False)):
        mask = learn(page(f"Visits {n}", head=other, tail=[]), page(f"Visits {n + 50}", head=other, tail=[]), mask)
        assert (described[0] in mask.describe()) is known


def test_masks_are_described() -> None:
    def content(n: int) -> bytes:
        advert = [("Buy soap", "It is cheap"), ("Drink tea",)][n % 2]
        return page(str(n), head=["Acme", "Latest news"], tail=["Weather", *advert, "End"])

    assert learn(content(1), content(4)).describe() == ["after «Weather»: any lines", "after «Latest news»: ‹number›"]


@pytest.mark.parametrize("content", [b"", b"\n", b"x", MARK, b"\xff\x00" * 50, b"\n" * 999])
def test_odd_contents_are_survived(content: bytes) -> None:
    mask = learn(page("7"), page("8"))
    assert apply(content, mask).content == apply(content, NO_MASK).content == content
    apply(page("9"), learn(content, page("8"), mask))
    apply(page("9"), learn(page("8"), content, mask, before=content))


def test_a_content_with_marks_of_its_own_is_left_alone() -> None:
    mask = learn(page("7"), page("8"))
    forged = page("7") + MARK
    assert apply(forged, mask).content == forged
    assert learn(forged, page("8"), mask) is mask


def test_the_state_is_bounded_and_comes_back() -> None:
    rng = random.Random(1)
    a, b = (
        "\n".join(f"{n} stays\n" + " ".join(f"w{n}x{hex_token(rng)}: word" for _ in range(11)) for n in range(300))
        for _ in range(2)
    )
    mask = learn(a.encode(), b.encode())
    assert len(mask.describe()) == RULES_MAX
    data = to_bytes(mask)
    assert len(data) <= BYTES_MAX
    again = from_bytes(data)
    assert to_bytes(again) == data
    assert again.describe() == mask.describe()[: len(again.describe())]


def test_no_mask_is_no_bytes() -> None:
    assert (to_bytes(NO_MASK), from_bytes(b"")) == (b"", NO_MASK)


DAMAGED = [
    b"x",
    b"[]",
    b"{}",
    b"[2,[],[]]",
    b"[1,[[]],[]]",
    b'[1,[],[[[],[[0,1]],"","",0]]]',
    b'[1,[],[[[["x",0,[]]]]]]',
]


@pytest.mark.parametrize("data", DAMAGED)
def test_damaged_state_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidValueError, match="mask"):
        from_bytes(data)


@pytest.mark.parametrize("kind", KINDS)
def test_any_state_comes_back(kind: str) -> None:
    mask = learn(*two_fetches(kind, 1))
    assert from_bytes(to_bytes(mask)) == mask


lines = st.lists(
    st.sampled_from([*HEAD, *ADVERTS, "7", "12 points", "13 points", "12:31:05", "12:31:09", "ab12cd", "{", "},", ""])
    | st.text(max_size=12),
    max_size=14,
)
contents = lines.map(lambda found: "\n".join(found).encode("utf-8", "replace"))


@settings(max_examples=300)
@given(contents, contents, contents, st.none() | contents, contents)
def test_applying_twice_is_applying_once(a: bytes, b: bytes, c: bytes, before: bytes | None, d: bytes) -> None:
    mask = learn(b, c, learn(a, b), before)
    for content in (a, b, c, d):
        once = apply(content, mask)
        assert apply(once.content, mask).content == once.content
        assert 0 <= once.hidden <= len(content)


@settings(max_examples=300)
@given(contents, contents, contents)
def test_only_what_is_marked_differs_from_the_content(a: bytes, b: bytes, c: bytes) -> None:
    masked = apply(c, learn(a, b)).content
    at = 0
    for piece in (each.strip(b"\n") for each in outside(masked)):
        found = c.find(piece, at)
        assert found >= at
        at = found + len(piece)


@settings(max_examples=300)
@given(contents, contents, lines, st.data())
def test_a_change_of_a_line_that_is_not_hidden_always_shows(
    a: bytes, b: bytes, c: list[str], data: st.DataObject
) -> None:
    mask = learn(a, b)
    content = "\n".join([*c, "a line to change"]).encode("utf-8", "replace")
    lines_of = content.split(b"\n")
    once = apply(content, mask).content
    shown = {line for piece in outside(once) for line in piece.split(b"\n") if line}
    changeable = [at for at, line in enumerate(lines_of) if line in shown and lines_of.count(line) == 1]
    assume(changeable)
    lines_of[data.draw(st.sampled_from(changeable))] = b"nobody ever said this before"
    assert apply(b"\n".join(lines_of), mask).content != once


@settings(max_examples=200)
@given(st.binary(max_size=300), st.binary(max_size=300))
def test_any_bytes_are_survived(a: bytes, b: bytes) -> None:
    mask = learn(a, b)
    apply(a, mask)
    assert from_bytes(to_bytes(mask)) == mask


@given(st.binary(max_size=200))
def test_units_and_tokens_lose_nothing(content: bytes) -> None:
    assert b"".join(units(content)) == content
    assert b"".join(token.text for token in tokens(content)) == content


HOSTILE = {
    "one line a million times": b"a\n" * 500_000,
    "no line end": b"a1-" * 500_000,
    "digits and dots": b"1." * 500_000,
    "colons": b"12:" * 300_000,
    "months": b"may 1 " * 200_000,
    "base64 alphabet": b"aB/" * 300_000,
    "units": b"; " * 300_000,
    "weekdays": b"mon, " * 200_000,
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_contents_are_learned_from_within_bounds(kind: str) -> None:
    a, b = HOSTILE[kind] + b"12 x", HOSTILE[kind] + b"13 x"
    mask = learn(a, b)
    assert len(to_bytes(mask)) <= BYTES_MAX
    assert len(apply(a, mask).content) <= len(a) + 32


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Sat, 21 Nov 2026 12:31:05 GMT", TokenKind.MOMENT),
        ("2026-11-21T12:31:05.123Z", TokenKind.MOMENT),
        ("2026-11-21 12:31:05 +0100", TokenKind.MOMENT),
        ("11/21/2026, 9:31 PM", TokenKind.MOMENT),
        ("21.11.2026", TokenKind.MOMENT),
        ("samedi 3 août 2026 à 12:31", TokenKind.MOMENT),
        ("Sat Nov 21 12:31:05 UTC 2026", TokenKind.MOMENT),
        ("2026年11月21日12:31:05", TokenKind.MOMENT),
        ("3 minutes ago", TokenKind.AGO),
        ("just now", TokenKind.AGO),
        ("1,234.50", TokenKind.NUMBER),
        ("f81d4fae-7dec-11d0-a765-00a0c91e6bf6", TokenKind.CODE),
        ("Xy7+ab/cdEfGh1jKlMnOp==", TokenKind.CODE),
        ("12ab", TokenKind.CODE),
        ("Generated", TokenKind.WORD),
    ],
)
def test_tokens(text: str, kind: TokenKind) -> None:
    (found,) = tokens(text.encode())
    assert found.kind is kind


def test_the_shape_of_a_moment() -> None:
    assert shape(b"Sat, 21 Nov 2026 9:31 AM") == b"a, 0 a 0 0:0 a"


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("abcd", "abcd", []),
        ("abxcd", "abycd", [Gap(2, 3, 2, 3)]),
        ("abcd", "abxycd", [Gap(2, 2, 2, 4)]),
        ("abcdef", "acbdfe", [Gap(1, 3, 1, 3), Gap(4, 6, 4, 6)]),
        ("", "ab", [Gap(0, 0, 0, 2)]),
    ],
)
def test_gaps(a: str, b: str, expected: list[Gap]) -> None:
    assert gaps([ord(sign) for sign in a], [ord(sign) for sign in b]) == expected


@given(st.lists(st.integers(0, 9), max_size=30), st.lists(st.integers(0, 9), max_size=30))
def test_outside_the_gaps_both_are_the_same(a: list[int], b: list[int]) -> None:
    i = j = 0
    for gap in gaps(a, b):
        assert a[i : gap.a_start] == b[j : gap.b_start]
        i, j = gap.a_end, gap.b_end
    assert a[i:] == b[j:]


def test_crossings_are_the_smallest_stretches() -> None:
    for order in itertools.permutations(range(5)):
        crossed = {at for start, end in crossings(range(5), order) for at in range(start, end)}
        alone = {at for at in range(5) if sorted(order[:at]) == list(range(at)) and order[at] == at}
        assert crossed == set(range(5)) - alone
