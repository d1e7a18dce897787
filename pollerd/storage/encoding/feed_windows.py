"""What a feed shows, as stored: JSON, and the number of items by itself, which a start reads of all sites."""

from __future__ import annotations

import structlog
from msgspec import MsgspecError, json

from pollerd.model import FeedWindow


def window_columns(window: FeedWindow | None) -> tuple[float | None, str | None]:
    """Returns the columns `items_shown` and `feed_window` of a site."""
    return (None, None) if window is None else (window.shown, json.encode(window).decode())


def stored_window(text: str | None, site_id: int) -> FeedWindow | None:
    """Returns the window in a site's column; None if there is none, or it was damaged, which is logged.

    The next poll that reads the feed stores it anew. Raises TypeError if the column holds no text.
    """
    if text is None:
        return None
    try:
        return json.decode(text, type=FeedWindow)
    except MsgspecError as error:
        log = structlog.get_logger("pollerd.storage")
        log.warning("feed_window_unusable", site_id=site_id, reason=str(error), instead="unknown until the next poll")
        return None
