"""The daemon of the daemon's own tests."""

from tests.daemon.conftest import any_database, database, origin, start

__all__ = ["any_database", "database", "origin", "start"]
