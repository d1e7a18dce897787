"""Asks whichever node polls a site to poll it at once."""

from __future__ import annotations

from sqlalchemy import Connection, text

NEWS_CHANNEL = "pollerd_news"
"""Channel on which PostgreSQL tells the nodes of a database what happens."""
POLL_REQUEST = "poll_request"
SETTINGS_POLL = "settings_poll"
"""The same for a site whose settings have changed: it is not left alone because it failed before."""
_ASK = text(f"SELECT pg_notify('{NEWS_CHANNEL}', current_schema() || ' ' || :request || ' ' || :site_id)")


def ask_to_poll(connection: Connection, site_id: int, *, anew: bool = False) -> None:
    """Notifies all nodes with the commit of this transaction. anew: its settings have changed."""
    connection.execute(_ASK, {"request": SETTINGS_POLL if anew else POLL_REQUEST, "site_id": str(site_id)})
