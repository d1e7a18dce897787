"""What the file system refuses, said as every other thing that cannot be used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pollerd.errors import InvalidValueError


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Raises InvalidValueError, which names the file (`path` where it is not known), in place of an OSError."""
    try:
        yield
    except OSError as error:
        place = str(error.filename or path)
        raise InvalidValueError(place, "a place that can be read and written", error.strerror) from error
