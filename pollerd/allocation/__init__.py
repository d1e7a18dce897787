"""Allocators, which decide which sites to poll next: their interface and the policies. Pure: no I/O, no clock."""

from typing import TYPE_CHECKING

from pollerd.lazy import names_of

if TYPE_CHECKING:
    from pollerd.allocation.public import *
else:
    __getattr__ = names_of("pollerd.allocation")
