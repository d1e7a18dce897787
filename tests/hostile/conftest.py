"""The daemon of the daemon's own tests."""

from tests.daemon.conftest import database, origin, start

__all__ = ["database", "origin", "start"]
