"""Whom to poll next: the allocator contract and the policies behind it. Pure: no I/O, no clock, no settings."""

from typing import TYPE_CHECKING

from pollerd.lazy import names_of

if TYPE_CHECKING:
    from pollerd.allocation.public import *
else:
    __getattr__ = names_of("pollerd.allocation")
