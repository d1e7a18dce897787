"""What a feed shows, as stored: JSON, and the number of items by itself, which a start reads of all sites."""

from __future__ import annotations

from msgspec import MsgspecError, json

from pollerd.model import FeedWindow


def window_columns(window: FeedWindow | None) -> tuple[float | None, str | None]:
    """Returns the columns `items_shown` and `feed_window` of a site."""
    return (None, None) if window is None else (window.shown, json.encode(window).decode())


def stored_window(text: str | None) -> FeedWindow | None:
    """Returns the window in a column; None if there is none, or it was damaged: the next poll that reads it stores it.

    Raises TypeError if the column holds no text.
    """
    if text is None:
        return None
    try:
        return json.decode(text, type=FeedWindow)
    except MsgspecError:
        return None
