"""Whom to poll next: the allocator contract and the policies behind it. Pure: no I/O, no clock, no settings."""

from pollerd.allocation.contract import Allocator, EvidenceBatch
from pollerd.allocation.registry import create, names, parameters

__all__ = ["Allocator", "EvidenceBatch", "create", "names", "parameters"]
