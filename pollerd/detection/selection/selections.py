"""The named selections of one site, compiled from their settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import orjson

from pollerd.detection.selection.selection import Selection, compile_selection
from pollerd.errors import InvalidValueError
from pollerd.model import DEFAULT_SELECTION

SELECTIONS_MAX = 20
BYTES_MAX = 64 * 1024
"""Longest settings of one site, as JSON."""
_NAME = re.compile(r"[^\s\x00-\x1f\x7f;,][^\x00-\x1f\x7f;,]{0,63}")
_COMPILED = 1024


@dataclass(frozen=True, slots=True)
class Selections:
    """The selections of one site, `default` first."""

    all: tuple[Selection, ...]

    @property
    def cheap(self) -> bool:
        """Whether small bodies may be read in the event loop."""
        return all(one.cheap for one in self.all)

    def __getitem__(self, name: str) -> Selection:
        """Returns the selection of this name. Raises KeyError."""
        for one in self.all:
            if one.name == name:
                return one
        raise KeyError(name)


def canonical(given: object) -> str:
    """Returns checked settings `{name: selection}` as JSON with sorted keys; empty for none or an empty table.

    A site always has a selection `default`: where the settings name none, it keeps the whole page. Raises
    InvalidValueError with the position of what is wrong.
    """
    if given is None or given == {}:
        return ""
    if not isinstance(given, Mapping):
        raise InvalidValueError("selections", "a table of selections by name", type(given).__name__)
    written = _written(given)
    compiled(written)
    return written


@lru_cache(maxsize=_COMPILED)
def compiled(settings: str) -> Selections:
    """Returns the selections of settings as returned by `canonical`. Raises InvalidValueError.

    Compiled ones are kept, because every poll of the site uses them.
    """
    return _compiled(orjson.loads(settings))


def _written(given: Mapping[object, object]) -> str:
    for name in given:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidValueError("selections", "names of 1 to 64 characters without comma and semicolon", str(name))
    if len(given) > SELECTIONS_MAX:
        raise InvalidValueError("selections", f"at most {SELECTIONS_MAX} selections", f"{len(given)}")
    try:
        written = orjson.dumps(given, option=orjson.OPT_SORT_KEYS).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValueError("selections", f"values as in JSON ({error})", "others") from error
    if len(written) > BYTES_MAX:
        raise InvalidValueError("selections", f"at most {BYTES_MAX:,} bytes as JSON", f"{len(written):,} bytes")
    return written


def _compiled(given: Mapping[str, object]) -> Selections:
    names = sorted(given, key=lambda name: (name != DEFAULT_SELECTION, name))
    if DEFAULT_SELECTION not in given:
        names = [DEFAULT_SELECTION, *names]
    return Selections(tuple(compile_selection(name, f"selections.{name}", given.get(name, {}) or {}) for name in names))
