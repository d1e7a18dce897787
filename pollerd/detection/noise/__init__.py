"""Masks: the parts of a page that differ at every fetch, learned from repeat fetches, removed before comparison."""

from pollerd.detection.noise.applying import Masked, apply
from pollerd.detection.noise.learning import learn
from pollerd.detection.noise.mask import NO_MASK, Mask
from pollerd.detection.noise.slots import MARK, MARK_END
from pollerd.detection.noise.state import from_bytes, to_bytes

__all__ = ["MARK", "MARK_END", "NO_MASK", "Mask", "Masked", "apply", "from_bytes", "learn", "to_bytes"]
