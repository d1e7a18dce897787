"""Allocators, which decide which sites to poll next: their interface and the policies. Pure: no I/O, no clock.

Programs outside import the names of the contract from here. They are loaded when they are first used: a command that
only lists the allocators needs no numpy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pollerd.allocation.contract import Allocator, EvidenceBatch
    from pollerd.allocation.registry import create, names, parameters

__all__ = ["Allocator", "EvidenceBatch", "create", "names", "parameters"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    room = "contract" if name in ("Allocator", "EvidenceBatch") else "registry"
    return getattr(import_module(f"{__name__}.{room}"), name)
