"""The polls of a site as columns, for a picture of its history."""

from __future__ import annotations

import numpy as np
from sqlalchemy import Connection, select

from pollerd.model import OutcomeKind
from pollerd.storage.db.schema.history import poll
from pollerd.storage.values import StripColumns

MOST_POLLS = 20_000
_FAILED = frozenset(kind.value for kind in OutcomeKind if kind.failed)


def strip_columns(connection: Connection, site_id: int, since: float) -> StripColumns:
    """Returns the site's polls since a time (epoch s), newest first, the newest `MOST_POLLS` at most."""
    c = poll.c
    statement = select(c.at, c.outcome, c.changed).where(c.site_id == site_id, c.at >= since).order_by(c.id.desc())
    rows = connection.execute(statement.limit(MOST_POLLS)).all()
    at, outcome, changed = zip(*rows, strict=True) if rows else ((), (), ())
    return StripColumns(
        at=np.array(at, np.float64),
        changed=np.array(changed, np.bool_),
        failed=np.array([one in _FAILED for one in outcome], np.bool_),
    )
