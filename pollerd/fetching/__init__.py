"""Fetching: conditional GETs of pages and robots.txt through the guard, returned as values. Only it uses the client."""

from typing import TYPE_CHECKING

from pollerd.lazy import names_of

if TYPE_CHECKING:
    from pollerd.fetching.public import *
else:
    __getattr__ = names_of("pollerd.fetching")
