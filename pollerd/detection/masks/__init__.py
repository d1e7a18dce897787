"""Masks: what of a page differs at every fetch, learned from twins, and taken out before contents are compared."""

from pollerd.detection.masks.applying import Masked, apply
from pollerd.detection.masks.learning import learn
from pollerd.detection.masks.mask import NO_MASK, Mask
from pollerd.detection.masks.state import from_bytes, to_bytes

__all__ = ["NO_MASK", "Mask", "Masked", "apply", "from_bytes", "learn", "to_bytes"]
