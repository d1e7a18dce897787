"""What is stored of how often a site changes and when it is polled next: written with its polls, for lists."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, select

from pollerd.storage.db.schema.reads import interest
from pollerd.storage.db.schema.sites import site, site_state, site_times
from pollerd.storage.db.statements import Statements
from pollerd.storage.encoding.row_repair import number
from pollerd.storage.values import StoredForecast


def stored_forecasts(connection: Connection, sql: Statements, site_ids: Sequence[int]) -> dict[int, StoredForecast]:
    """Returns it for those of these sites that are there, by id."""
    s, state, times = site.c, site_state.c, site_times.c
    wanted = select(s.id, s.paused, state.rate, times.next_poll_at, interest.c.learned_half_life)
    wanted = wanted.join_from(site, site_state).join(site_times, times.site_id == s.id)
    wanted = wanted.outerjoin(interest, interest.c.site_id == s.id)
    rows = connection.execute(wanted.where(sql.among(s.id, "sites")), {"sites": sql.many(site_ids)})
    found = {}
    for row in rows:
        rate = number(row.rate, -1.0)
        found[row.id] = StoredForecast(
            None if rate < 0 else rate,
            None if row.paused else number(row.next_poll_at, 0.0),
            number(row.learned_half_life),
        )
    return found
