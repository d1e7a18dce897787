"""Public names of `pollerd.allocation`; other packages import them from there."""

from pollerd.allocation.contract import Allocator, EvidenceBatch
from pollerd.allocation.registry import create, names, parameters

__all__ = ["Allocator", "EvidenceBatch", "create", "names", "parameters"]
