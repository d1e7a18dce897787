"""A condition on sites, in the two forms in which lists need it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, FromClause, Select, exists, literal, select
from sqlalchemy.sql.base import ReadOnlyColumnCollection

Columns = ReadOnlyColumnCollection[str, Any]


@dataclass(frozen=True, slots=True)
class SiteCondition:
    """A condition on sites."""

    ids: Select[Any]
    """Ids of the sites that meet it, found by an index of its own."""
    holds: Callable[[ColumnElement[int]], ColumnElement[bool]]
    """Whether the site with the id in this column meets it."""


def looked_up(
    table: FromClause, key: str, site_id: ColumnElement[int], fits: Callable[[Columns], ColumnElement[bool]]
) -> ColumnElement[bool]:
    """Returns whether the table has a row of the site with the id in this column that fits, by its key alone.

    Databases like to join instead, or to take the filter's own index, by counts of rows that are wrong after an import:
    a page may then take a minute. OFFSET keeps them from it.
    """
    its = select(table).where(table.c[key] == site_id).correlate_except(table).offset(0).subquery("its_row")
    return exists(select(literal(1)).where(fits(its.c)))
