"""Filters of lists of sites as conditions."""

from __future__ import annotations

import math
from collections.abc import Callable

from sqlalchemy import ColumnElement, Table, and_, select, text

from pollerd.model import SiteState
from pollerd.storage.db.schema.sites import host, site, site_state, site_tag
from pollerd.storage.db.schema.sources import source_site
from pollerd.storage.sites.lists.condition import Columns, SiteCondition, looked_up
from pollerd.storage.sites.lists.words import words_condition
from pollerd.storage.values import SiteFilter

_IS_PAUSED = text("site.paused")
_PAUSABLE = site.alias("pausable")
_EVER = 5e-324
"""The least time of a change; 0: there was none."""


def conditions_of(wanted: SiteFilter, *, is_sqlite: bool, indexed: bool) -> list[SiteCondition]:
    """Returns the conditions of a filter; none: every site fits. indexed: see `words_condition`.

    Raises `InvalidValueError` for too many words.
    """
    found = [words_condition(wanted.q, is_sqlite=is_sqlite, indexed=indexed)] if wanted.q else []
    if wanted.tag is not None:
        found.append(_of(site_tag, "site_id", lambda c: c.tag == wanted.tag))
    if wanted.host is not None:
        host_id = select(host.c.id).where(host.c.name == wanted.host).scalar_subquery()
        found.append(_of(site, "id", lambda c: c.host_id == host_id))
    if wanted.source is not None:
        found.append(_of(source_site, "site_id", lambda c: c.source_id == wanted.source, repeated=True))
    if wanted.state is SiteState.PAUSED:
        # The index knows the condition only as it has it itself.
        paused = _of(site, "id", lambda c: c.paused)
        found.append(SiteCondition(select(site.c.id).where(_IS_PAUSED), paused.holds))
    elif wanted.state is not None:
        state = wanted.state.value
        found.append(_of(site_state, "site_id", lambda c: and_(c.state == state, ~_is_paused(c.site_id))))
    if wanted.rate_min is not None or wanted.rate_max is not None:
        # Of a site of which nothing is believed it is -1.
        least = max(wanted.rate_min or 0.0, 0.0)
        most = math.inf if wanted.rate_max is None else wanted.rate_max
        found.append(_of(site_state, "site_id", lambda c: c.rate.between(least, most)))
    if wanted.changed_since is not None:
        since = max(wanted.changed_since, _EVER)
        found.append(_of(site_state, "site_id", lambda c: c.last_change_at >= since))
    return [one for one in found if one is not None]


def _is_paused(site_id: ColumnElement[int]) -> ColumnElement[bool]:
    """Returns whether the user paused the site: that goes before what polls met."""
    return looked_up(_PAUSABLE, "id", site_id, lambda c: c.paused)


def _of(
    table: Table,
    key: str,
    fits: Callable[[Columns], ColumnElement[bool]],
    *,
    repeated: bool = False,
) -> SiteCondition:
    """Returns the condition on a row that a site has in the table, by the column of its id.

    repeated: whether it may have several.
    """
    ids, other = select(table.c[key]).where(fits(table.c)), table.alias(f"its_{table.name}")

    def holds(site_id: ColumnElement[int]) -> ColumnElement[bool]:
        # By another name: the list may be read from the same table.
        return looked_up(other, key, site_id, fits)

    return SiteCondition(ids.distinct() if repeated else ids, holds)
