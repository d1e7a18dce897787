"""Compares contents under a site's mask, and learns the mask from a repeat fetch.

A repeat fetch comes right after another of the same page: what differs between the two is no change of the page.
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
    """The content with its noise replaced by the name of what it is; as it is, where `mask` is empty.

    Raises InvalidValueError where `mask` is none that `learn_from_pair` gave.
    """
    return apply(content, _read(mask)).content if mask else content


def fingerprint_of(content: bytes, mask: bytes) -> bytes:
    """16 bytes that stand for what of the content is no noise."""
    return xxhash.xxh3_128_digest(without_noise(content, mask))


def noise_of(mask: bytes) -> tuple[str, ...]:
    """What the mask hides and where, a line each, for a person."""
    return tuple(_read(mask).describe()) if mask else ()


def mask_is_stale(content: bytes, mask: bytes) -> bool:
    """Whether the page's structure has changed, so that the mask has lost places where it knew noise."""
    return apply(content, _read(mask)).missing > 0


def under_known_noise(first: bytes, second: bytes, baseline: Baseline, masks: Sequence[bytes]) -> Baseline | None:
    """What is remembered of the second content where the two differ in nothing but noise that other pages have, too.

    Tries the masks in their order; None where none of them makes the two the same.
    """
    for mask in masks:
        rest = apply(second, _read(mask))
        if not rest.all_noise and rest.content == without_noise(first, mask):
            return replace(baseline, mask=mask, fingerprint=xxhash.xxh3_128_digest(rest.content))
    return None


def learn_from_pair(first: bytes, second: bytes, baseline: Baseline, earlier: bytes | None) -> tuple[Baseline, bool]:
    """What is remembered after a repeat fetch, and whether both fetches are the same but for noise.

    `baseline` is what `detect` made of the second; its mask is widened by what differs between the two. `earlier`, the
    content of the poll before them, tells a change that fell between the two fetches from noise, where it is known. Of
    a page that is nothing but noise nothing would be left to compare: it is given no mask.
    """
    known = _read(baseline.mask)
    widened = learn(first, second, known, earlier)
    if widened == known or apply(second, widened).all_noise:
        return baseline, False
    mask = to_bytes(widened)
    fingerprint = fingerprint_of(second, mask)
    return replace(baseline, mask=mask, fingerprint=fingerprint), fingerprint == fingerprint_of(first, mask)
