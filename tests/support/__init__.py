"""What several suites share."""

from collections.abc import Callable

AT_SESSION_END: list[Callable[[], None]] = []
"""Called when a test process ends."""
