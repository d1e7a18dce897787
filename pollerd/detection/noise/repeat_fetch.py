"""Compares contents under a site's mask, and learns the mask from a repeat fetch.

A repeat fetch (a proof poll) comes right after another of the page: what differs between the two is no change of it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache

import xxhash
from msgspec import Struct
from msgspec import structs

from pollerd.detection.noise import apply, from_bytes, learn, to_bytes
from pollerd.detection.noise.applying import hidden_by_rule
from pollerd.detection.noise.mask import Mask
from pollerd.model import Baseline

HEAVY_UNDER_MASK_BYTES = 8 * 1024
"""Contents above this size may take more than about 5 ms of CPU under a mask."""

_read = lru_cache(maxsize=1024)(from_bytes)


def without_noise(content: bytes, mask: bytes) -> bytes:
    """Returns the content with each noisy part replaced by its name; unchanged if `mask` is empty.

    Raises InvalidValueError for a mask that is not from `learn_from_pair`.
    """
    return apply(content, _read(mask)).content if mask else content


def fingerprint_of(content: bytes, mask: bytes) -> bytes:
    """Returns the 16-byte fingerprint of the content without its noise."""
    return xxhash.xxh3_128_digest(without_noise(content, mask))


def under_mask(content: bytes, mask: bytes) -> tuple[bytes, tuple[int, ...]]:
    """Returns `fingerprint_of`, and for each rule of the mask a hash of what it acts on, as `hidden_by_rule` says."""
    if not mask:
        return xxhash.xxh3_128_digest(content), ()
    masked, hidden = hidden_by_rule(content, _read(mask))
    return xxhash.xxh3_128_digest(masked.content), hidden


def doubtable_rules(mask: bytes) -> tuple[bool, ...]:
    """Returns for each rule of the mask whether what it hides may be no noise."""
    return _read(mask).may_be_doubted()


def without_rules(baseline: Baseline, content: bytes, rules: Collection[int]) -> Baseline:
    """Returns the unproven baseline of the content under the site's mask without the rules at these indices.

    It has no `raw_fingerprint`, so that the next body is compared even if it is the same as the last.
    """
    mask = to_bytes(_read(baseline.mask).without(rules))
    return structs.replace(baseline, mask=mask, fingerprint=fingerprint_of(content, mask), raw_fingerprint=None, proven=False)


def noise_of(mask: bytes) -> tuple[str, ...]:
    """Returns what the mask hides and where, a line each, for users."""
    return tuple(_read(mask).describe()) if mask else ()


def mask_is_stale(content: bytes, mask: bytes) -> bool:
    """Returns whether the page's structure has changed, so that places of the mask are missing."""
    return apply(content, _read(mask)).missing > 0


def under_known_noise(first: bytes, second: bytes, baseline: Baseline, masks: Sequence[bytes]) -> Baseline | None:
    """Returns the baseline of the second content if both differ only in noise that is known from other pages.

    Tries the masks in order; None if no mask makes the two equal.
    """
    for mask in masks:
        rest = apply(second, _read(mask))
        if not rest.all_noise and rest.content == without_noise(first, mask):
            return structs.replace(baseline, mask=mask, fingerprint=xxhash.xxh3_128_digest(rest.content))
    return None


class PairVerdict(Struct, frozen=True, gc=False):
    """What two polls right after each other show."""

    baseline: Baseline
    """Of the second content, under the mask that the two teach."""
    same: bool
    """Whether the two are equal but for what the mask hides."""
    only_noise: bool
    """Whether the second is equal to the content of the poll before, but for what the mask hides."""
    wide: bool = False
    """Whether the mask now hides any text, lines or order: a change between the two would be taken for noise too."""


def learn_from_pair(
    first: bytes, second: bytes, baseline: Baseline, earlier: bytes | None, *, returns: bool = True
) -> PairVerdict:
    """Returns what the second of two polls right after each other shows.

    `baseline` is the result of `detect` for the second; its mask is widened by the differences between the two.
    `earlier`, the content of the poll before them, if known, distinguishes a change between the two from noise;
    `returns` as in `learn`. A page that is nothing but noise gets no mask, because nothing would be left to compare.
    """
    known = _read(baseline.mask)
    widened = learn(first, second, known, earlier, returns=returns)
    learned = widened != known and not apply(second, widened).all_noise
    if learned:
        widened = widened if earlier is None else _with_values_of(earlier, second, widened)
        mask = to_bytes(widened) if widened else b""
        baseline = structs.replace(baseline, mask=mask, fingerprint=fingerprint_of(second, mask))
    shown = without_noise(second, baseline.mask)
    return PairVerdict(
        baseline,
        same=without_noise(first, baseline.mask) == shown,
        only_noise=earlier is not None and without_noise(earlier, baseline.mask) == shown,
        wide=learned and widened.is_wider_than(known),
    )


def _with_values_of(earlier: bytes, second: bytes, mask: Mask) -> Mask:
    """Returns the mask whose slots also take the values of the earlier content, if nothing else differs from it.

    Two codes of digits alone look like numbers, and an earlier one with letters then like a change.
    """
    wider = learn(earlier, second, mask)
    if wider == mask or not wider.hides_in_slots_of(mask):
        return mask
    return wider if apply(earlier, wider).content == apply(second, wider).content else mask
