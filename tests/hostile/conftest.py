"""The daemon of the daemon's own tests."""

from tests.daemon.conftest import database, origin, start
from tests.support.stores import empty_database, statements_are_compiled_once

__all__ = ["database", "empty_database", "origin", "start", "statements_are_compiled_once"]
