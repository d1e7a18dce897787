"""Keys of a table that a user wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pollerd.detection.selection.document import shown
from pollerd.detection.selection.values.nearest import with_nearest
from pollerd.errors import InvalidValueError


def check_keys(field: str, given: Mapping[object, object], known: Sequence[str]) -> None:
    """Raises InvalidValueError for an unknown key; it names the known ones, and that which looks most like it."""
    for key in given:
        if key not in known:
            name = str(key)[:60]
            raise InvalidValueError(
                f"{field}.{name}", with_nearest(f"among {', '.join(known)}", name, known), shown(name)
            )
