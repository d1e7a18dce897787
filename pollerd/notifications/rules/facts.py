"""What rules are asked about: plain values of one event."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from pollerd.detection.selection.conditions.line_changes import LineChanges
from pollerd.events import EventKind
from pollerd.model import Media


class Facts(Struct, frozen=True, gc=False):
    """One event, as rules see it."""

    kind: EventKind
    site_id: int | None = None
    """None: the event concerns no site; then every rule that listens to it matches."""
    tags: tuple[str, ...] = ()
    host: str = ""
    media: Media | None = None
    selection: str = ""
    summary: str = ""
    matters: bool = True
    lines: Callable[[], LineChanges] | None = None
    """Computes the lines; called once at most, and only if a rule that matches otherwise asks for words in them."""
