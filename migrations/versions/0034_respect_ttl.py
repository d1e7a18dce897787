"""How far an announced TTL is believed: off, strictly or as a hint; whether a site broke such a promise; and an index
by which sites that redirect permanently to one URL are found."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None

_OFF, _STRICT = 0, 1


def upgrade() -> None:
    op.add_column("site", sa.Column("trust", sa.SmallInteger))
    op.execute(
        f"UPDATE site SET trust = CASE WHEN respect_ttl THEN {_STRICT} ELSE {_OFF} END WHERE respect_ttl IS NOT NULL"
    )
    op.drop_column("site", "respect_ttl")
    op.execute("ALTER TABLE site RENAME COLUMN trust TO respect_ttl")
    op.add_column("site_state", sa.Column("ttl_broken", sa.Boolean, nullable=False, server_default=sa.false()))
    _of_tags({True: _STRICT, False: _OFF})
    few = sa.text("redirect_url IS NOT NULL")
    op.create_index(
        "ix_site_state_redirect_url", "site_state", ["redirect_url"], postgresql_where=few, sqlite_where=few
    )


def downgrade() -> None:
    """A hint becomes what earlier versions did by default."""
    op.drop_index("ix_site_state_redirect_url", "site_state")
    _of_tags({_STRICT: True, _OFF: False})
    op.drop_column("site_state", "ttl_broken")
    op.add_column("site", sa.Column("respected", sa.Boolean))
    op.execute(f"UPDATE site SET respected = (respect_ttl = {_STRICT}) WHERE respect_ttl IN ({_OFF}, {_STRICT})")
    op.drop_column("site", "respect_ttl")
    op.execute("ALTER TABLE site RENAME COLUMN respected TO respect_ttl")


def _of_tags(values: dict[int, int]) -> None:
    """Replaces the values in the settings of tags; others are left out."""
    tag = sa.table("tag", sa.column("name", sa.Text), sa.column("settings", sa.Text))
    connection = op.get_bind()
    for name, text in connection.execute(sa.select(tag.c.name, tag.c.settings)).all():
        try:
            settings = json.loads(text)
        except ValueError:  # damaged: it is reported when it is used
            continue
        if isinstance(settings, dict) and "respect_ttl" in settings:
            given = settings.pop("respect_ttl")
            if given in values:
                settings["respect_ttl"] = values[given]
            connection.execute(tag.update().where(tag.c.name == name).values(settings=json.dumps(settings)))
