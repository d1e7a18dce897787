"""Asks whichever node polls a site to poll it at once."""

from __future__ import annotations

from sqlalchemy import Connection, text

NEWS_CHANNEL = "pollerd_news"
"""Channel on which PostgreSQL tells the nodes of a database what happens."""
POLL_REQUEST = "poll_request"
_ASK = text(f"SELECT pg_notify('{NEWS_CHANNEL}', current_schema() || ' {POLL_REQUEST} ' || :site_id)")


def ask_to_poll(connection: Connection, site_id: int) -> None:
    """Tells all nodes with the commit of this transaction."""
    connection.execute(_ASK, {"site_id": str(site_id)})
