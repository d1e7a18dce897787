"""On PostgreSQL polls are partitioned by day; SQLite keeps its one table.

Existing polls stay where they are: their table becomes the partition of all days up to and with today's, and is pruned
row by row until all of it is past its retention. That costs one index of two columns in place of that of ids, and one
reading of the table: no copy; docs/limits.md ("What PostgreSQL costs") says how long that takes. Polls from the future,
of a clock that was wrong, are moved to the default partition. Going back copies all polls.
"""

from __future__ import annotations

import math
import time
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

_DAY = 86_400
# Longer than any table takes: the timeout of a statement is made for those of a running daemon.
_PATIENCE_SECONDS = 7 * _DAY
_COLUMNS = "id, site_id, at, elapsed, outcome, status, duration, bytes, changed, age, count, detail, redirects"
_SEQUENCE = "poll_id_seq"


def upgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        return
    _run("ALTER TABLE poll RENAME TO poll_old")
    for name in ("pk_poll", "ix_poll_site_id_id", "ix_poll_at"):
        _run(f"ALTER INDEX {name} RENAME TO {name}_old")
    _run("CREATE TABLE poll (LIKE poll_old INCLUDING DEFAULTS) PARTITION BY RANGE (at)")
    _run(f"ALTER SEQUENCE {_SEQUENCE} OWNED BY poll.id")
    _run("ALTER TABLE poll ADD CONSTRAINT pk_poll PRIMARY KEY (id, at)")
    _run("CREATE INDEX ix_poll_site_id_id ON poll (site_id, id)")
    _run("ALTER TABLE poll ADD CONSTRAINT fk_poll_site_id FOREIGN KEY (site_id) REFERENCES site (id) ON DELETE CASCADE")
    _run("CREATE TABLE poll_default PARTITION OF poll DEFAULT")
    if op.get_bind().execute(sa.text("SELECT EXISTS (SELECT FROM poll_old)")).scalar_one():
        _attach_old()
    else:
        _run("DROP TABLE poll_old")


def _attach_old() -> None:
    """Makes the table of existing polls a partition, without copying them."""
    end = (math.floor(time.time() / _DAY) + 1) * _DAY
    # The index of times stays: rows are pruned by it.
    _run(f"WITH future AS (DELETE FROM poll_old WHERE at >= {end} RETURNING *) INSERT INTO poll SELECT * FROM future")
    _run("ALTER TABLE poll_old DROP CONSTRAINT pk_poll_old")
    _run("ALTER TABLE poll_old ADD CONSTRAINT pk_poll_old PRIMARY KEY (id, at)")
    _run(f"ALTER TABLE poll ATTACH PARTITION poll_old FOR VALUES FROM (MINVALUE) TO ({end})")


def downgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        return
    _run("CREATE TABLE poll_whole (LIKE poll INCLUDING DEFAULTS)")
    _run(f"INSERT INTO poll_whole ({_COLUMNS}) SELECT {_COLUMNS} FROM poll ORDER BY id")
    _run(f"ALTER SEQUENCE {_SEQUENCE} OWNED BY poll_whole.id")
    _run("DROP TABLE poll")
    _run("ALTER TABLE poll_whole RENAME TO poll")
    _run("ALTER TABLE poll ADD CONSTRAINT pk_poll PRIMARY KEY (id)")
    _run("CREATE INDEX ix_poll_site_id_id ON poll (site_id, id)")
    _run("CREATE INDEX ix_poll_at ON poll (at)")
    _run("ALTER TABLE poll ADD CONSTRAINT fk_poll_site_id FOREIGN KEY (site_id) REFERENCES site (id) ON DELETE CASCADE")


def _run(statement: str) -> None:
    """Runs a statement that may take longer than those of a daemon may."""
    connection: Any = op.get_bind().connection.dbapi_connection
    connection.run_async(lambda driver: driver.execute(statement, timeout=_PATIENCE_SECONDS))
