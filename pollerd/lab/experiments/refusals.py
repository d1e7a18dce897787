"""File system errors as InvalidValueError."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pollerd.errors import InvalidValueError


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Raises InvalidValueError with the file name (`path` if unknown) instead of an OSError."""
    try:
        yield
    except OSError as error:
        place = str(error.filename or path)
        raise InvalidValueError(place, "a place that can be read and written", error.strerror) from error
