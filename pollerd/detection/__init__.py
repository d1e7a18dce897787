"""Change detection on response bodies. Pure: no I/O, no clock, no randomness.

`detect` compares a response with a site's `Baseline`; `summarise` describes a change in one line.
"""

from pollerd.detection.common_affix import common_affix_length
from pollerd.detection.detect import HEAVY_BYTES, HEAVY_FEED_BYTES, detect, heavy
from pollerd.detection.last_modified import parse_http_date
from pollerd.detection.noise.repeat_fetch import (
    HEAVY_UNDER_MASK_BYTES,
    doubtable_rules,
    learn_from_pair,
    mask_is_stale,
    noise_of,
    under_known_noise,
    without_noise,
    without_rules,
)
from pollerd.detection.normalise import Normalised, normalise
from pollerd.detection.summary import is_large, summarise

__all__ = [
    "HEAVY_BYTES",
    "HEAVY_FEED_BYTES",
    "HEAVY_UNDER_MASK_BYTES",
    "Normalised",
    "common_affix_length",
    "detect",
    "doubtable_rules",
    "heavy",
    "is_large",
    "learn_from_pair",
    "mask_is_stale",
    "noise_of",
    "normalise",
    "parse_http_date",
    "summarise",
    "under_known_noise",
    "without_noise",
    "without_rules",
]
