"""The live loop: chooses, polls, detects, learns, commits."""

from typing import TYPE_CHECKING

from pollerd.lazy import names_of

if TYPE_CHECKING:
    from pollerd.daemon.public import *
else:
    __getattr__ = names_of("pollerd.daemon")
