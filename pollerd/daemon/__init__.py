"""The live loop: chooses sites, polls them, detects changes, learns and commits."""

from typing import TYPE_CHECKING

from pollerd.lazy import names_of

if TYPE_CHECKING:
    from pollerd.daemon.public import *
else:
    __getattr__ = names_of("pollerd.daemon")
