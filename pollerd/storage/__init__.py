"""Persistent state: SQLite or PostgreSQL behind one `Store`."""

from typing import TYPE_CHECKING

from pollerd.lazy import names_of

if TYPE_CHECKING:
    from pollerd.storage.public import *
else:
    __getattr__ = names_of("pollerd.storage")
