"""Upgrades of the reader: what is read otherwise than before is no change, and no change is lost."""

from __future__ import annotations

from dataclasses import replace as replace_kind

import pytest
import xxhash
from msgspec.structs import replace

from pollerd.detection.detect import ANEW, HEAVY_BYTES, as_read_now, detect, heavy
from pollerd.detection.normalise import normalise
from pollerd.model import FIRST_READER, NO_READER, READER, Baseline, Detection, Evidence, Media, Outcome, OutcomeKind
from tests.detection.reader_kinds import FINGERPRINTS, KINDS, Kind
from tests.detection.selection.steps.test_pdf import pdf

NOW = 1_700_000_000.0
UNCHANGED, CHANGED = OutcomeKind.UNCHANGED, OutcomeKind.CHANGED
each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def answer(body: bytes, kind: Kind) -> Outcome:
    return Outcome(OutcomeKind.BODY, NOW, 0.1, status=200, body=body, content_type=kind.content_type)


def stored(kind: Kind) -> Baseline:
    """What the version before stored: its fingerprint, and everything else as the first reader reads it."""
    found = normalise(kind.before, kind.content_type, FIRST_READER)
    first = detect(answer(kind.before, kind), Baseline(), None).baseline
    fingerprint, window = bytes.fromhex(FINGERPRINTS[kind.name]), first.window if found.entries else None
    old = replace(first, fingerprint=fingerprint, reader=FIRST_READER, media=found.media, no_text="", window=window)
    return old if found.entries else replace(old, items=b"")


def taken_over(detection: Detection) -> Detection:
    """What is committed of it where no noise is learned."""
    return detection if detection.reread is None else detection.reread


@each_kind
def test_the_first_reader_is_the_one_of_before(kind: Kind) -> None:
    content = normalise(kind.before, kind.content_type, FIRST_READER).content
    assert xxhash.xxh3_128_hexdigest(content) == FINGERPRINTS[kind.name]
    assert (normalise(kind.before, kind.content_type).content != content) is kind.sees_more


@each_kind
@pytest.mark.parametrize("other_bytes", [False, True])
def test_no_page_changes_by_an_upgrade(kind: Kind, other_bytes: bool) -> None:
    body = kind.same if other_bytes else kind.before
    first = detect(answer(body, kind), stored(kind), 60.0)
    assert (first.kind, first.evidence) == (UNCHANGED, Evidence(changed=False))
    now = taken_over(first)
    assert (now.kind, now.baseline.reader) == (UNCHANGED, READER)
    assert (now.content is not None, now.detail) == ((True, ANEW) if kind.sees_more else (False, ""))
    assert now.content in (None, normalise(body, kind.content_type).content)
    for again in (kind.before, kind.same):
        second = detect(answer(again, kind), now.baseline, 60.0)
        assert (second.kind, second.reread, second.content, second.detail) == (UNCHANGED, None, None, "")


@each_kind
def test_no_change_is_lost_by_an_upgrade(kind: Kind) -> None:
    """Neither one since the last poll before it, nor one since the first poll after it."""
    found = detect(answer(kind.after, kind), stored(kind), 60.0)
    assert (found.kind, found.baseline.reader, found.reread) == (CHANGED, FIRST_READER, None)
    assert found.content == normalise(kind.after, kind.content_type, FIRST_READER).content, "its difference is pure"
    then = taken_over(detect(answer(kind.after, kind), found.baseline, 60.0))
    assert (then.kind, then.baseline.reader) == (UNCHANGED, READER)
    later = taken_over(detect(answer(kind.before, kind), stored(kind), 60.0))
    assert detect(answer(kind.after, kind), later.baseline, 60.0).kind is CHANGED


@each_kind
def test_a_page_of_a_reader_that_nobody_knows_begins_anew_once(kind: Kind) -> None:
    for reader in (NO_READER, READER + 1):
        found = detect(answer(kind.after, kind), replace(stored(kind), reader=reader), 60.0)
        assert (found.kind, found.evidence, found.baseline.reader) == (UNCHANGED, None, READER)
        assert detect(answer(kind.after, kind), found.baseline, 60.0).kind is UNCHANGED
        assert detect(answer(kind.before, kind), found.baseline, 60.0).kind is CHANGED


def test_what_was_kept_as_it_was_sent_is_read_anew_too() -> None:
    """The first reader takes a feed with an odd date for text, build date and all, and PDF for bytes."""
    feed = next(kind for kind in KINDS if kind.name == "rss with a date that is none")
    built = feed.before.replace(b"<item>", b"<lastBuildDate>@</lastBuildDate><item>", 1)
    document = Kind("pdf", pdf("In stock"), b"", pdf("Sold out"), "application/pdf")
    table = Kind("csv", b"a;b\n1;2", b"a;b\r\n1;2", b"a;b\n1;3", "application/csv")
    pairs = [
        (
            replace_kind(feed, before=built),
            built.replace(b"@", b"1"),
            built.replace(b"@", b"1").replace(b">x<", b">y<"),
        ),
        (document, pdf("In stock") + b"%made anew", document.after),
        (table, table.same, table.after),
    ]
    for kind, same, after in pairs:
        content = normalise(kind.before, kind.content_type, FIRST_READER)
        fingerprint = xxhash.xxh3_128_digest(content.content)
        before = Baseline(fingerprint, xxhash.xxh3_128_digest(kind.before), content.media)
        assert content.media in (Media.TEXT, Media.BINARY)
        assert detect(answer(same, kind), before, 60.0).kind is CHANGED
        found = as_read_now(answer(same, kind), before, content.content, 60.0)
        assert found is not None, kind.name
        assert (found.kind, found.baseline.reader) == (UNCHANGED, READER)
        assert as_read_now(answer(after, kind), before, content.content, 60.0) is None
        assert as_read_now(answer(same, kind), found.baseline, content.content, 60.0) is None


def test_a_body_that_is_unpacked_now_begins_anew() -> None:
    """Gzip of which no header says anything was compared as bytes."""
    feed = next(kind for kind in KINDS if kind.name == "rss")
    before = Baseline(b"x" * 16, b"y" * 16, Media.TEXT)
    found = detect(answer(feed.before, feed), before, 60.0)
    assert (found.kind, found.evidence, found.baseline.media) == (UNCHANGED, None, Media.FEED)


def test_entries_that_are_remembered_stay_known() -> None:
    for kind in KINDS:
        before = stored(kind)
        now = taken_over(detect(answer(kind.same, kind), before, 60.0)).baseline
        if before.items and kind.name != "rss with one guid":
            assert now.items == before.items, kind.name


def test_noise_is_learned_again_where_the_text_is_another() -> None:
    images, plain = (next(kind for kind in KINDS if kind.name == name) for name in ("image", "plain"))
    for kind, kept in ((images, False), (plain, True)):
        before = replace(stored(kind), proven=True)
        now = taken_over(detect(answer(kind.before, kind), before, 60.0)).baseline
        assert (now.mask, now.proven) == (b"", kept)


def test_not_modified_leaves_the_baseline_as_it_is() -> None:
    before = stored(KINDS[0])
    found = detect(Outcome(OutcomeKind.NOT_MODIFIED, NOW, 0.1), before, 60.0)
    assert (found.baseline, found.reread) == (before, None)


def test_a_page_that_is_read_by_two_readers_is_read_beside_the_loop() -> None:
    kind = Kind("long", b"<p>" + b"a " * HEAVY_BYTES, b"", b"", "text/html")
    raw = xxhash.xxh3_128_digest(kind.before)
    before = Baseline(b"x" * 16, raw)
    assert heavy(answer(kind.before, kind), before)
    assert not heavy(answer(kind.before, kind), replace(before, reader=READER))


def test_gzip_without_a_word_begins_anew() -> None:
    """The first reader was given the bytes as they came: they cannot be had again."""
    kind = Kind("gzip", b"<p>a", b"<p>a", b"<p>a")
    first = detect(answer(kind.before, kind), Baseline(), None).baseline
    old = replace(first, fingerprint=b"0" * 16, raw_fingerprint=b"1" * 16, reader=FIRST_READER, no_text="")
    found = detect(replace(answer(kind.before, kind), unpacked=True), old, 60.0)
    assert (found.kind, found.evidence, found.baseline.reader, found.detail) == (UNCHANGED, None, READER, ANEW)
    assert detect(replace(answer(kind.before, kind), unpacked=True), found.baseline, 60.0).kind is UNCHANGED
    assert detect(replace(answer(b"<p>b", kind), unpacked=True), found.baseline, 60.0).kind is CHANGED
