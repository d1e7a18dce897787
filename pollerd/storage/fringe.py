"""Pages that were discovered and not asked for yet: which of them to ask for next, and as what site.

However many there are, choosing looks at the best page of some hosts by index: `page_host.best` names the hosts,
`page.worth` the page. To be asked for, a page becomes a site on trial.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray
from sqlalchemy import Connection, ScalarSelect, Select, and_, bindparam, delete, func, insert, select, update

from pollerd.discovery.appraisal import FringeRows, discovered
from pollerd.errors import ConfigError
from pollerd.model import PageState, SiteSpec
from pollerd.storage.imports import SiteImport
from pollerd.storage.page_values import Appraise, CollectionRow, Trial
from pollerd.storage.schema import collection, page, page_host, site
from pollerd.storage.statements import Statements
from pollerd.urls import host_of

PIECE = 2_000
SWEEP = 256
"""Pages that are valued anew at a time."""
FIRST_WORTH = 1e3
"""More than any page that was judged by its surroundings is worth: seeds come first, and what was being asked for."""


def url_key(url: str) -> int:
    """What pages are told apart by: 64 bits. Among ten million, one in three hundred thousand webs has two alike."""
    return xxhash.xxh3_64_intdigest(url.encode("utf-8", "replace")) - (1 << 63)


_BECOME = (
    update(page)
    .where(page.c.id == bindparam("page"))
    .values(
        state=bindparam("to"),
        reason=bindparam("why"),
        site_id=bindparam("site"),
        own=bindparam("mine"),
        asked_at=bindparam("at"),
        worth=None,
    )
)
_REVALUE = (
    update(page).where(page.c.id == bindparam("page"), page.c.worth.is_not(None)).values(worth=bindparam("value"))
)
_ONE_MORE_OUT = update(page_host).where(page_host.c.id == bindparam("host")).values(out=page_host.c.out + 1)


class Fringe:
    """The pages on the fringe and the sites that some of them become."""

    def __init__(self, sql: Statements, imports: SiteImport) -> None:
        self._sql, self._import = sql, imports
        self._known = select(page.c.key).where(sql.among(page.c.key, "keys"))
        self._ids = select(page.c.key, page.c.id).where(sql.among(page.c.key, "keys"))
        self._hosts = select(page_host.c.name, page_host.c.id).where(sql.among(page_host.c.name, "names"))
        self._of_pages = _with_surroundings().where(sql.among(page.c.id, "ids"))
        self._new_hosts = sql.insert_for(page_host).on_conflict_do_nothing(index_elements=["name"])
        self._new_pages = sql.insert_for(page).on_conflict_do_nothing(index_elements=["key"])
        self._best = update(page_host).where(sql.among(page_host.c.id, "hosts")).values(best=_best_worth())
        self._delete_sites = delete(site).where(sql.among(site.c.id, "sites"))

    def begin(self, connection: Connection, topic: str, now: float) -> CollectionRow:
        """The collection, begun where there is none. Raises `ConfigError` where there is one on another topic."""
        c = collection.c
        row = connection.execute(select(c.topic, c.requests, c.learned)).one_or_none()
        if row is None:
            connection.execute(insert(collection).values(id=1, topic=topic, started_at=now))
            return CollectionRow(topic, 0, None)
        if row.topic != topic:
            raise ConfigError(
                f"topic: this database holds a collection on {row.topic!r}, not on {topic!r}; another topic needs "
                "another database"
            )
        # A host whose share was used up may have room again under other limits.
        connection.execute(update(page_host).where(page_host.c.best.is_(None)).values(best=_best_worth()))
        return CollectionRow(*row)

    def recall(self, connection: Connection) -> int:
        """Takes sites on trial back to the fringe, as long as nothing follows links; how many they were."""
        asked = page.c.state == PageState.ASKED.value
        sites = list(connection.execute(select(page.c.site_id).where(asked)).scalars())
        if not sites:
            return 0
        hosts = list(connection.execute(select(page.c.host_id).where(asked).distinct()).scalars())
        connection.execute(self._delete_sites, {"sites": self._sql.many(sites)})
        back = {"state": PageState.FRINGE.value, "site_id": None, "own": False, "worth": FIRST_WORTH}
        connection.execute(update(page).where(asked).values(back))
        connection.execute(update(page_host).values(out=0))
        self.renew_hosts(connection, hosts)
        return len(sites)

    def known(self, connection: Connection, urls: Sequence[str]) -> set[str]:
        """Which of the URLs are pages already."""
        found = set[int]()
        keys = [url_key(url) for url in urls]
        for start in range(0, len(keys), PIECE):
            some = self._sql.many(keys[start : start + PIECE])
            found.update(connection.execute(self._known, {"keys": some}).scalars())
        return {url for url, key in zip(urls, keys, strict=True) if key in found}

    def ids(self, connection: Connection, urls: Iterable[str]) -> dict[str, int]:
        """Ids of pages by URL."""
        keys = {url_key(url): url for url in urls}
        rows = connection.execute(self._ids, {"keys": self._sql.many(keys)})
        return {keys[key]: page_id for key, page_id in rows}

    def host_ids(self, connection: Connection, names: Iterable[str]) -> dict[str, int]:
        """Ids of hosts by name, new ones added."""
        unique = list(dict.fromkeys(names))
        connection.execute(self._new_hosts, [{"name": name} for name in unique])
        rows = connection.execute(self._hosts, {"names": self._sql.texts(unique)})
        return dict(map(tuple, rows))

    def add(self, connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
        """New pages, columns by name; `key`, `host_id` and `state` follow from `url`. Those that are known stay."""
        hosts = self.host_ids(connection, (host_of(row["url"]) for row in rows))
        whole = [{**row, "key": url_key(row["url"]), "host_id": hosts[host_of(row["url"])]} for row in rows]
        for start in range(0, len(whole), PIECE):
            connection.execute(self._new_pages, whole[start : start + PIECE])

    def add_seeds(self, connection: Connection, urls: Sequence[str], now: float) -> int:
        """Adds seeds that are new, to be asked for first; how many they were."""
        known = self.known(connection, urls)
        new = [url for url in dict.fromkeys(urls) if url not in known]
        if new:
            self.add(connection, [{"url": url, "depth": 0, "discovered_at": now, "worth": FIRST_WORTH} for url in new])
            self.renew_hosts(connection, self.host_ids(connection, map(host_of, new)).values())
        return len(new)

    def renew_hosts(self, connection: Connection, host_ids: Iterable[int]) -> None:
        """`best` of the hosts follows their pages."""
        connection.execute(self._best, {"hosts": self._sql.many(set(host_ids))})

    def appraise(self, connection: Connection, page_ids: Sequence[int], appraise: Appraise) -> set[int]:
        """Values the pages anew, where they are on the fringe; the hosts on which they are."""
        rows = [row for row in self.rows(connection, page_ids) if row.worth is not None and row.worth < FIRST_WORTH]
        if not rows:
            return set()
        worth = appraise(fringe_rows(rows)).tolist()
        new = [{"page": row.id, "value": value} for row, value in zip(rows, worth, strict=True)]
        connection.execute(_REVALUE, new)
        return {row.host_id for row in rows}

    def rows(self, connection: Connection, page_ids: Sequence[int]) -> list[Any]:
        """What is known around pages."""
        found: list[Any] = []
        for start in range(0, len(page_ids), PIECE):
            some = self._sql.many(page_ids[start : start + PIECE])
            found += connection.execute(self._of_pages, {"ids": some})
        return found

    def sweep(self, connection: Connection, after: int, appraise: Appraise) -> int:
        """Values some pages of the fringe with ids above `after` anew: what was learned meanwhile reaches all of them.

        Where to go on; 0: from the beginning.
        """
        some = select(page.c.id).where(page.c.state == PageState.FRINGE.value, page.c.id > after)
        ids = list(connection.execute(some.order_by(page.c.id).limit(SWEEP)).scalars())
        self.renew_hosts(connection, self.appraise(connection, ids, appraise))
        return ids[-1] if len(ids) == SWEEP else 0

    def promote(
        self,
        connection: Connection,
        wanted: int,
        per_host: int,
        pages_per_host: int,
        weight: float,
        now: float,
        at: float | None = None,
    ) -> list[Trial]:
        """Makes sites on trial of the best pages of the best hosts, at most `wanted`, and `per_host` of a host at once.

        A page whose URL is a site of the user's is held in the collection as it is; one whose URL the user deleted is
        rejected. at: takes one page of a host instead that lies so far in the list of hosts, 0 to 1.
        """
        h = page_host.c
        free = and_(h.best.is_not(None), h.asked + h.out < pages_per_host, h.out < per_host)
        statement = select(_best_page()).where(free)
        if at is None:
            statement = statement.order_by(h.best.desc()).limit(wanted)
        else:
            last = connection.execute(select(func.max(h.id))).scalar_one() or 0
            statement = statement.where(h.id >= at * last).order_by(h.id).limit(1)
        chosen = [page_id for page_id in connection.execute(statement).scalars() if page_id is not None]
        return self._put_on_trial(connection, chosen, weight, now) if chosen else []

    def _put_on_trial(self, connection: Connection, page_ids: list[int], weight: float, now: float) -> list[Trial]:
        rows = {row.id: row for row in self.rows(connection, page_ids)}
        order = [rows[page_id] for page_id in page_ids]
        specs = [SiteSpec(row.url, weight=weight) for row in order]
        added = self._import.add(connection, specs, [host_of(row.url) for row in order], now, respect_deleted=True)
        own = {i: (site_id, host_id) for site_id, i, host_id in added.added}
        theirs = {i: site_id for site_id, i in added.existing}
        changes = [_becomes(row.id, i, own, theirs, now) for i, row in enumerate(order)]
        connection.execute(_BECOME, changes)
        out = [{"host": order[i].host_id} for i in own]
        if out:
            connection.execute(_ONE_MORE_OUT, out)
        self.renew_hosts(connection, {row.host_id for row in order})
        trials = [_trial(order[i], PageState.ASKED, site_id, host_id) for i, (site_id, host_id) in own.items()]
        held = [_trial(order[i], PageState.COLLECTED, site_id, -1) for i, site_id in theirs.items()]
        return trials + held

    def held(self, connection: Connection, after: int) -> list[Trial]:
        """Some pages that are sites, with page ids above `after`, ordered by id; none: there are no more."""
        states = (PageState.ASKED.value, PageState.COLLECTED.value)
        some = select(page.c.id).where(page.c.state.in_(states), page.c.site_id.is_not(None), page.c.id > after)
        ids = list(connection.execute(some.order_by(page.c.id).limit(PIECE)).scalars())
        rows = sorted(self.rows(connection, ids), key=lambda row: row.id)
        return [_trial(row, PageState(row.state), row.site_id, -1) for row in rows]


def fringe_rows(rows: Sequence[Any]) -> FringeRows:
    """Rows as columns."""

    def column(name: str) -> NDArray[np.float64]:
        return np.array([getattr(row, name) or 0.0 for row in rows], np.float64)

    return FringeRows(
        urls=[row.url for row in rows],
        parents=column("parents"),
        parents_sum=column("parents_sum"),
        parents_best=column("parents_best"),
        anchors=column("anchors"),
        anchor_sum=column("anchor_sum"),
        same_host=np.array([row.host_id == row.discoverer_host for row in rows], np.bool_),
        brood=column("brood"),
        brood_asked=column("brood_asked"),
        brood_sum=column("brood_sum"),
    )


def _first_rows(row: Any) -> FringeRows:
    """The same of one row, as it was when the page was discovered."""
    known = row.parent_id is not None
    relevance = row.discoverer_relevance or 0.0
    return discovered(
        [row.url], relevance, np.array([row.anchor]), np.array([row.host_id == row.discoverer_host]), known=known
    )


def _trial(row: Any, state: PageState, site_id: int, host_id: int) -> Trial:
    return Trial(
        row.id,
        site_id,
        host_id,
        host_of(row.url),
        row.url,
        state,
        state is PageState.ASKED or bool(row.own),
        row.depth,
        row.step,
        row.worth or 0.0,
        row.relevance,
        fringe_rows([row]),
        _first_rows(row),
    )


def _becomes(
    page_id: int, i: int, own: dict[int, tuple[int, int]], theirs: dict[int, int], now: float
) -> dict[str, Any]:
    values = {"page": page_id, "at": now, "why": "", "mine": i in own}
    if i in own:
        return {**values, "to": PageState.ASKED.value, "site": own[i][0]}
    if i in theirs:
        return {**values, "to": PageState.COLLECTED.value, "site": theirs[i]}
    return {**values, "to": PageState.REJECTED.value, "site": None, "why": "its site was deleted"}


def _best_worth() -> ScalarSelect[Any]:
    return select(func.max(page.c.worth)).where(page.c.host_id == page_host.c.id).scalar_subquery()


def _best_page() -> ScalarSelect[Any]:
    c = page.c
    best = select(c.id).where(c.host_id == page_host.c.id, c.worth.is_not(None)).order_by(c.worth.desc()).limit(1)
    return best.correlate(page_host).scalar_subquery()


def _with_surroundings() -> Select[Any]:
    by, c = page.alias("discoverer"), page.c
    own = (c.id, c.url, c.host_id, c.state, c.own, c.depth, c.step, c.worth, c.relevance, c.site_id, c.parent_id)
    links = (c.anchor, c.parents, c.parents_sum, c.parents_best, c.anchors, c.anchor_sum)
    brood = (by.c.brood, by.c.brood_asked, by.c.brood_sum)
    around = (by.c.host_id.label("discoverer_host"), by.c.relevance.label("discoverer_relevance"))
    return select(*own, *links, *brood, *around).join_from(page, by, by.c.id == c.parent_id, isouter=True)
