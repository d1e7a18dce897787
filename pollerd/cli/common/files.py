"""Format of a file by its name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import TypeVar

from pollerd.errors import InvalidValueError

T = TypeVar("T")


def by_suffix(name: str | PurePath | None, known: Mapping[str, T], default: T) -> T:
    """Returns the format of a file by its suffix; `default` without a file (None, "-" or a stream) or a suffix.

    Raises `InvalidValueError` for an unknown suffix: a list under a wrong name is worse than none.
    """
    suffix = "" if name is None else PurePath(name).suffix.lower()
    if suffix and suffix not in known:
        allowed = f"a name that ends with {', '.join(known)}, or use --format"
        raise InvalidValueError("file", allowed, str(name))
    return known.get(suffix, default)
