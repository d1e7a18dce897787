"""Decides when to poll: site and host tables, politeness, backoff, choice. Pure: `now` and `rng` are arguments."""

from typing import TYPE_CHECKING

from pollerd.lazy import names_of

if TYPE_CHECKING:
    from pollerd.scheduling.public import *
else:
    __getattr__ = names_of("pollerd.scheduling")
