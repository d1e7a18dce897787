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
from pollerd.errors import InvalidValueError
from pollerd.model import Baseline, Detection, Evidence, Media, Outcome, OutcomeKind

HEAVY_BYTES = 64 * 1024
HEAVY_FEED_BYTES = 8 * 1024
NEVER_SEEN = Baseline()
_UNCHANGED = Evidence(changed=False)


def heavy(outcome: Outcome, baseline: Baseline = NEVER_SEEN) -> bool:
    """Returns True if `detect` may take more than about 5 ms of CPU, at worst 15 ms: run it off the event loop.

    True for bodies over 64 KiB, and over 8 KiB if the type suggests a feed, for which feedparser needs 0.3 ms per KiB,
    or if a mask has to be applied. A body identical to the last one, byte for byte, costs only its hash.
    """
    size = len(outcome.body or b"")
    feedlike = size > HEAVY_FEED_BYTES and essence(outcome.content_type).endswith("xml")
    masked = size > HEAVY_UNDER_MASK_BYTES and bool(baseline.mask)
    if not (size > HEAVY_BYTES or feedlike or masked):
        return False
    return xxhash.xxh3_128_digest(outcome.body or b"") != baseline.raw_fingerprint


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
    """
    if outcome.kind not in (OutcomeKind.BODY, OutcomeKind.NOT_MODIFIED):
        raise InvalidValueError("outcome.kind", "body or not_modified", outcome.kind.value)
    if elapsed is not None and not 0.0 <= elapsed < math.inf:
        raise InvalidValueError("elapsed", "a finite number of seconds, at least 0, or None", elapsed)
    if outcome.body is None:
        return Detection(OutcomeKind.NOT_MODIFIED, _nothing_new(baseline), _unchanged(elapsed))
    raw = xxhash.xxh3_128_digest(outcome.body)
    if raw == baseline.raw_fingerprint and baseline.fingerprint is not None:
        return _same(outcome, baseline, elapsed)
    found = normalise(outcome.body, outcome.content_type)
    fingerprint, hidden = under_mask(found.content, baseline.mask)
    if baseline.fingerprint is None:
        return _first(outcome, _seen(outcome, baseline, found, fingerprint, raw), found)
    seen = _seen(outcome, baseline, found, fingerprint, raw)
    if fingerprint == baseline.fingerprint and found.media is baseline.media:
        detection = _same(outcome, seen, elapsed)
    else:
        detection = _changed(outcome, baseline, seen, found, elapsed)
    return replace(detection, hidden=hidden) if hidden else detection


def _unchanged(elapsed: float | None) -> Evidence | None:
    return None if elapsed is None else _UNCHANGED


def _nothing_new(baseline: Baseline) -> Baseline:
    if baseline.window is None:
        return baseline
    window = nothing_new(baseline.window)
    return baseline if window is baseline.window else replace(baseline, window=window)


def _seen(outcome: Outcome, baseline: Baseline, found: Normalised, fingerprint: bytes, raw: bytes) -> Baseline:
    window = None
    if found.media is Media.FEED:
        fresh = len(feed.unseen(baseline.items, found.entries))
        window = feed_window(baseline, found.entries, fresh, outcome)
    return replace(
        baseline,
        fingerprint=fingerprint,
        raw_fingerprint=raw,
        media=found.media,
        items=feed.remember(baseline.items, found.entries) if found.media is Media.FEED else b"",
        ttl=found.ttl,
        window=window,
    )


def _same(outcome: Outcome, seen: Baseline, elapsed: float | None) -> Detection:
    after, _ = last_modified.update_trust(_nothing_new(seen), outcome, changed=False, elapsed=elapsed)
    return Detection(OutcomeKind.UNCHANGED, after, _unchanged(elapsed))


def _first(outcome: Outcome, seen: Baseline, found: Normalised) -> Detection:
    """Detection of a first poll: sets the baseline without evidence, since the site's dates are not yet trusted.

    An entry dated months ago (wrong dates, or edited entries) would imply no change for months, and the site would not
    be polled for as long. How many items a feed published in which time is evidence for who counts items.
    """
    after, _ = last_modified.update_trust(seen, outcome, changed=False, elapsed=None)
    evidence = of_first_poll(found.entries, outcome) if found.media is Media.FEED else None
    return Detection(OutcomeKind.FIRST, after, evidence, found.content)


def _changed(outcome: Outcome, before: Baseline, seen: Baseline, found: Normalised, elapsed: float | None) -> Detection:
    after, modified_age = last_modified.update_trust(seen, outcome, changed=True, elapsed=elapsed)
    fresh = feed.unseen(before.items, found.entries)
    # An edit shows in the date of the edited entry; a new entry's own date says when it appeared.
    age = feed.age(fresh or found.entries, outcome, elapsed) if elapsed is not None else None
    evidence = Evidence(
        changed=True,
        age=modified_age if age is None else age,
        count=feed.count(fresh, found.entries) if before.media is found.media else None,
    )
    if elapsed is not None and seen.window is not None and before.media is found.media:
        evidence = with_items(evidence, fresh, seen.window, outcome, elapsed)
    return Detection(OutcomeKind.CHANGED, after, evidence if elapsed is not None else None, found.content)
