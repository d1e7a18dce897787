"""What the tables are made of."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, MetaData, Text, text

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# SQLite assigns row ids itself only if the key is declared INTEGER.
Id = BigInteger().with_variant(Integer, "sqlite")
# Free space per page lets PostgreSQL update a hot row in place, without touching its indexes.
HOT_FILLFACTOR = 70


def id_column() -> Column[int]:
    """Returns a key that the database assigns."""
    return Column("id", Id, primary_key=True, autoincrement=True)


# Compared by its characters, whatever the database's language.
PlainText = Text().with_variant(Text(collation="C"), "postgresql")


def partial_index(name: str | None, *columns: str, where: str) -> Index:
    """Returns an index over the rows of which `where`, SQL, holds."""
    return Index(name, *columns, sqlite_where=text(where), postgresql_where=text(where))


def site_id_column(primary_key: bool = False) -> Column[int]:
    """Returns the id of the site that a row goes with."""
    return Column(
        "site_id",
        Id,
        ForeignKey("site.id", ondelete="CASCADE"),
        primary_key=primary_key,
        autoincrement=False,
        nullable=False,
    )
