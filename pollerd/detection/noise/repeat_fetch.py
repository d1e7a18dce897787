"""Compares contents under a site's mask, and learns the mask from a repeat fetch.

A repeat fetch comes right after another fetch of the page: differences between the two are no change of the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import xxhash
from msgspec.structs import replace

from pollerd.detection.noise import apply, from_bytes, learn, to_bytes
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
            return replace(baseline, mask=mask, fingerprint=xxhash.xxh3_128_digest(rest.content))
    return None


def learn_from_pair(first: bytes, second: bytes, baseline: Baseline, earlier: bytes | None) -> tuple[Baseline, bool]:
    """Returns the baseline after a repeat fetch, and whether both fetches are equal but for noise.

    `baseline` is the result of `detect` for the second; its mask is widened by the differences between the two.
    `earlier`, the content of the poll before them, if known, distinguishes a change between the two fetches from noise.
    A page that is nothing but noise gets no mask, because nothing would be left to compare.
    """
    known = _read(baseline.mask)
    widened = learn(first, second, known, earlier)
    if widened == known or apply(second, widened).all_noise:
        return baseline, False
    mask = to_bytes(widened)
    fingerprint = fingerprint_of(second, mask)
    return replace(baseline, mask=mask, fingerprint=fingerprint), fingerprint == fingerprint_of(first, mask)
