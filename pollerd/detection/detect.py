"""Detection: the comparison of a response with its site's baseline, which yields a detection and its evidence."""

from __future__ import annotations

import math

import xxhash
from msgspec.structs import replace

from pollerd.detection import feed, last_modified
from pollerd.detection.feed import feed_window, nothing_new, of_first_poll, with_items
from pollerd.detection.media import essence
from pollerd.detection.noise.learning import HEAVY_UNDER_MASK_BYTES, under_mask
from pollerd.detection.normalise import Normalised, normalise
from pollerd.detection.pdf import is_pdf
from pollerd.errors import InvalidValueError
from pollerd.model import READER, READERS, Baseline, Detection, Evidence, Media, Outcome, OutcomeKind
from pollerd.texts import N_, _

HEAVY_BYTES = 64 * 1024
HEAVY_FEED_BYTES = 8 * 1024
NEVER_SEEN = Baseline()
ANEW = N_("read more exactly than before the upgrade: compared from now on, which is no change")
"""Detail of the poll at which a site is taken over from an earlier reader, if that reads it otherwise."""
_UNCHANGED = Evidence(changed=False)
_AS_SENT = (Media.TEXT, Media.BINARY)
"""Media whose content is the body."""


def heavy(outcome: Outcome, baseline: Baseline = NEVER_SEEN) -> bool:
    """Returns True if `detect` may take more than about 5 ms of CPU, at worst 15 ms: run it off the event loop.

    True for PDF documents, for bodies over 64 KiB, and over 8 KiB if the type suggests a feed, for which feedparser
    needs 0.3 ms per KiB, or if a mask has to be applied. The same bytes as
    the last ones cost only their hash.
    """
    if not outcome.body:
        return False
    size = len(outcome.body)
    feedlike = size > HEAVY_FEED_BYTES and essence(outcome.content_type).endswith("xml")
    masked = size > HEAVY_UNDER_MASK_BYTES and bool(baseline.mask)
    if not (size > HEAVY_BYTES or feedlike or masked or is_pdf(outcome.body, outcome.content_type)):
        return False
    if baseline.reader != READER and baseline.fingerprint is not None:
        return True
    return xxhash.xxh3_128_digest(outcome.body) != baseline.raw_fingerprint


def detect(outcome: Outcome, baseline: Baseline, elapsed: float | None) -> Detection:
    """Classifies a response of a site.

    `outcome` is of kind BODY or NOT_MODIFIED, else InvalidValueError. `elapsed` is seconds since the last informative
    poll, None at the first; InvalidValueError if it is negative or not finite.

    Returns a detection of kind NOT_MODIFIED, FIRST, UNCHANGED or CHANGED (never UNDECODABLE: content that cannot be
    parsed as its media is compared as text or bytes). Its evidence is

    - unchanged: `changed` False. - changed: `count` of new feed entries, except if all of them
    are new (the window has rolled over and the
      number would be a lower bound) or none is (an edit); `age` if a feed's entry or a trusted `Last-Modified`
      dates the change, in [0, elapsed] seconds; `at_least` and `span` of a feed's new entries.

    A first poll has none, but a feed's may have `at_least` and `span` alone. A site with a baseline counts as seen even
    if `elapsed` is None, but then there is no evidence: a change without a gap says nothing about a rate. `content` is
    set for FIRST and CHANGED.

    A baseline of an earlier reader is compared by that reader. As soon as it finds nothing, `reread` is what the
    present one makes of the same answer. What changed stays with the earlier one: its difference shows the change only.
    """
    if outcome.kind not in (OutcomeKind.BODY, OutcomeKind.NOT_MODIFIED):
        raise InvalidValueError("outcome.kind", _("body or not_modified"), outcome.kind.value)
    if elapsed is not None and not 0.0 <= elapsed < math.inf:
        raise InvalidValueError("elapsed", _("a finite number of seconds, at least 0, or None"), elapsed)
    if outcome.body is None:
        return Detection(OutcomeKind.NOT_MODIFIED, _nothing_new(baseline), _unchanged(elapsed))
    raw = xxhash.xxh3_128_digest(outcome.body)
    if baseline.fingerprint is None:
        normalised = normalise(outcome.body, outcome.content_type)
        fingerprint, _hidden = under_mask(normalised.content, baseline.mask)
        return _first(outcome, _seen(outcome, baseline, normalised, (fingerprint, raw)), normalised)
    if baseline.reader == READER:
        return _compared(outcome, baseline, raw, elapsed)
    anew = _read_anew(outcome, baseline, raw, elapsed)
    if baseline.reader not in READERS or outcome.unpacked:
        return replace(anew, evidence=None)
    detection = _compared(outcome, baseline, raw, elapsed)
    if baseline.media in _AS_SENT and detection.baseline.media not in _AS_SENT:
        return replace(anew, evidence=None)  # bytes that are unpacked now, for example
    return replace(detection, reread=anew) if detection.kind is OutcomeKind.UNCHANGED else detection


def as_read_now(outcome: Outcome, baseline: Baseline, before: bytes, elapsed: float | None) -> Detection | None:
    """Returns the detection of an answer that the earlier reader of its site took for another text, or other bytes.

    Such contents are bodies: before, the last one, is read by the present reader, too. None: that finds a change, or
    the content before says nothing.
    """
    if outcome.body is None or baseline.reader == READER or baseline.media not in _AS_SENT:
        return None
    anew = _read_anew(outcome, baseline, xxhash.xxh3_128_digest(outcome.body), elapsed)
    then = normalise(before, outcome.content_type)
    return anew if anew.content == then.content and anew.baseline.media is then.media else None


def _compared(outcome: Outcome, baseline: Baseline, raw: bytes, elapsed: float | None) -> Detection:
    """Compares a body with a baseline by the reader that the baseline is of."""
    if raw == baseline.raw_fingerprint:
        return _same(outcome, baseline, elapsed)
    normalised = normalise(outcome.body or b"", outcome.content_type, baseline.reader)
    fingerprint, hidden = under_mask(normalised.content, baseline.mask)
    seen = _seen(outcome, baseline, normalised, (fingerprint, raw), baseline.reader)
    if fingerprint == baseline.fingerprint and normalised.media is baseline.media:
        detection = _same(outcome, seen, elapsed)
    else:
        detection = _changed(outcome, baseline, seen, normalised, elapsed)
    return replace(detection, hidden=hidden) if hidden else detection


def _read_anew(outcome: Outcome, baseline: Baseline, raw: bytes, elapsed: float | None) -> Detection:
    """Takes a body by the present reader in place of a baseline that is of an earlier one: no change.

    If its text is another one, its noise has to be learned again, and the new text is what is kept.
    """
    normalised = normalise(outcome.body or b"", outcome.content_type)
    fingerprint, hidden = under_mask(normalised.content, baseline.mask)
    if fingerprint == baseline.fingerprint and normalised.media is baseline.media:
        return replace(_same(outcome, _seen(outcome, baseline, normalised, (fingerprint, raw)), elapsed), hidden=hidden)
    before = replace(baseline, mask=b"", proven=False)
    seen = _seen(outcome, before, normalised, (under_mask(normalised.content, b"")[0], raw))
    detection = _same(outcome, seen, elapsed)
    return replace(detection, content=normalised.content, detail=detection.detail or _(ANEW))


def _unchanged(elapsed: float | None) -> Evidence | None:
    return None if elapsed is None else _UNCHANGED


def _nothing_new(baseline: Baseline) -> Baseline:
    if baseline.window is None:
        return baseline
    window = nothing_new(baseline.window)
    return baseline if window is baseline.window else replace(baseline, window=window)


def _seen(
    outcome: Outcome, baseline: Baseline, normalised: Normalised, prints: tuple[bytes, bytes], reader: int = READER
) -> Baseline:
    """prints: fingerprints of the text under the mask, and of the body."""
    fingerprint, raw = prints
    if normalised.media is Media.FEED:
        fresh = len(feed.unseen(baseline.items, normalised.entries))
        window = feed_window(baseline, normalised.entries, fresh, outcome)
        items = feed.remember(baseline.items, normalised.entries)
    else:
        items, window = feed.kept_over_other_medium(baseline, outcome)
    return replace(
        baseline,
        fingerprint=fingerprint,
        raw_fingerprint=raw,
        media=normalised.media,
        items=items,
        ttl=normalised.ttl,
        reader=reader,
        no_text=normalised.no_text,
        window=window,
    )


def _same(outcome: Outcome, seen: Baseline, elapsed: float | None) -> Detection:
    after, _age = last_modified.update_trust(_nothing_new(seen), outcome, changed=False, elapsed=elapsed)
    return Detection(OutcomeKind.UNCHANGED, after, _unchanged(elapsed))


def _first(outcome: Outcome, seen: Baseline, normalised: Normalised) -> Detection:
    """Detection of a first poll: sets the baseline without evidence, since the site's dates are not yet trusted.

    An entry dated months ago (wrong dates, or edited entries) would imply no change for months, and the site would not
    be polled for as long. How many items a feed published in which time is evidence for who counts items.
    """
    after, _age = last_modified.update_trust(seen, outcome, changed=False, elapsed=None)
    evidence = of_first_poll(normalised.entries, outcome) if normalised.media is Media.FEED else None
    return Detection(OutcomeKind.FIRST, after, evidence, normalised.content)


def _changed(
    outcome: Outcome, before: Baseline, seen: Baseline, normalised: Normalised, elapsed: float | None
) -> Detection:
    after, modified_age = last_modified.update_trust(seen, outcome, changed=True, elapsed=elapsed)
    fresh = feed.unseen(before.items, normalised.entries)
    # An edit shows in the date of the edited entry; a new entry's own date says when it appeared.
    age = feed.age(fresh or normalised.entries, outcome, elapsed) if elapsed is not None else None
    evidence = Evidence(
        changed=True,
        age=modified_age if age is None else age,
        count=feed.count(fresh, normalised.entries) if before.media is normalised.media else None,
    )
    if elapsed is not None and seen.window is not None and before.media is normalised.media:
        evidence = with_items(evidence, fresh, seen.window, outcome, elapsed)
    return Detection(OutcomeKind.CHANGED, after, evidence if elapsed is not None else None, normalised.content)
