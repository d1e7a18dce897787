"""Lines that a change added and removed, for each medium of contents, and for contents of megabytes."""

from __future__ import annotations

import numpy as np

from pollerd.detection.feed import FeedEntry, content
from pollerd.detection.noise.learning import learn
from pollerd.detection.noise.mask import to_bytes
from pollerd.detection.selection.conditions.change_size import LineChanges
from pollerd.model import Media
from pollerd.notifications.messages import CutLines, changed_lines, cut_lines


def test_text() -> None:
    before, after = b"head\nsame\nold\ntail", b"head\nnew 1\nsame\nnew 2\ntail\n"
    assert changed_lines(before, after, Media.HTML) == LineChanges(("new 1", "new 2"), ("old",))
    assert changed_lines(b"a\nb", b"b\na", Media.TEXT) == LineChanges((), ()), "moved only"


def test_what_has_no_lines() -> None:
    assert changed_lines(None, b"x", Media.TEXT) == LineChanges((), ())
    assert changed_lines(b"a\x00", b"b\x00", Media.BINARY) == LineChanges((), ())


def test_feeds_by_entry_without_those_that_left() -> None:
    old = content([FeedEntry("1", "First", ""), FeedEntry("2", "Second", "text")])
    new = content([FeedEntry("2", "Second!", "text"), FeedEntry("3", "Third", "")])
    assert changed_lines(old, new, Media.FEED) == LineChanges(("Second! · text", "Third"), ("Second · text",))


def test_noise_does_not_count() -> None:
    pages = [f"<p>Hello\nNow {moment}\nGoodbye".encode() for moment in ("10:01:07", "10:02:19", "10:03:33")]
    mask = to_bytes(learn(pages[0], pages[1]))
    assert changed_lines(pages[0], pages[2] + b"\nnews", Media.HTML, mask) == LineChanges(("news",), ())


def test_cut_to_a_number_and_a_length() -> None:
    changes = LineChanges(tuple(f"new {n}" for n in range(5)), ("x" * 30, "a\x00\u202eb"))
    assert cut_lines(changes, most=2, longest=10) == CutLines(("new 0", "new 1"), ("x" * 9 + "…", "a b"), True)
    assert not cut_lines(LineChanges(("a",), ())).cut


def test_of_a_long_line_the_difference_is_shown() -> None:
    one, other = "é" * 1_000 + " old " + "y" * 1_000, "é" * 1_000 + " new " + "y" * 1_000
    found = cut_lines(LineChanges((other,), (one,)), longest=100)
    assert "é new y" in found.added[0]
    assert "é old y" in found.removed[0]
    assert len(found.added[0]) <= 100
    assert found.added[0][0] == found.added[0][-1] == "…"


def test_megabytes_on_one_line_and_on_many() -> None:
    huge = bytes(np.random.default_rng(1).integers(97, 120, 5_000_000, dtype=np.uint8))
    found = cut_lines(changed_lines(huge, huge[:3_000_000] + b"NEWS" + huge[3_000_000:], Media.HTML))
    assert "NEWS" in found.added[0]
    many = [b"%d" % number for number in range(200_000)]
    changes = changed_lines(b"\n".join(many), b"\n".join([b"x" + line for line in reversed(many)]), Media.TEXT)
    assert len(changes.added) == len(changes.removed) == 200_000
    assert len(cut_lines(changes).added) == 100
