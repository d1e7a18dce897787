"""The frontier of the focused crawler: discovered but unrequested pages, of which the best become sites on trial.

Whatever the size of the frontier, choosing reads the best page of some hosts by index: `page_host.best` orders the
hosts, `page.value` the pages.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import xxhash
from sqlalchemy import (
    BigInteger,
    Connection,
    Executable,
    ScalarSelect,
    Select,
    and_,
    bindparam,
    delete,
    func,
    insert,
    literal_column,
    null,
    select,
    true,
    update,
)

from pollerd.errors import ConfigError
from pollerd.model import PageState
from pollerd.site_settings import SiteSpec
from pollerd.storage.engine import Database
from pollerd.storage.page_values import CollectionRow, PageRow, Trial
from pollerd.storage.schema import collection, page, page_host, page_link, site, site_state
from pollerd.storage.site_imports import SiteImport
from pollerd.storage.statements import ColumnSource, ForEachRow, Statements, run, run_each
from pollerd.storage.transactions import Subject, reads, writes
from pollerd.texts import _
from pollerd.urls import host_of

# The link context of frontier pages: parents, link texts, siblings.

FIRST_VALUE = 1e3
"""Above the value of any page valued by its links: seeds come first, and pages whose trial was interrupted."""
CONTEXT_PIECE = 500
"""Pages valued at a time: the event loop runs between two pieces."""
_NEAREST = 1 << 30
_RENEWED = ["parents", "parents_sum", "parents_best", "anchors", "anchor_sum", "depth"]


_OF_PARENT = {
    "parent_host": "host_id",
    "parent_relevance": "relevance",
    "child_count": "child_count",
    "children_retrieved": "children_retrieved",
    "children_relevance": "children_relevance",
}


@dataclass(slots=True)
class LinkContextDelta:
    """Changes of a page's link context by polls: links added or removed, and relevances of the linking pages."""

    parents: int = 0
    parents_sum: float = 0.0
    best: float = 0.0
    """Largest relevance of pages whose links to it were added or kept."""
    fell: float = -1.0
    """Largest former relevance of a parent that lost relevance or removed its link."""
    anchors: int = 0
    anchor_sum: float = 0.0
    depth: int = _NEAREST

    def link(self, relevance: float, anchor: float, depth: int) -> None:
        """Adds a link from a page of this relevance; depth: links from the nearest seed by this path."""
        self.parents += 1
        self.change_relevance(0.0, relevance)
        self.change_anchor(0.0, anchor)
        self.depth = min(self.depth, depth)

    def unlink(self, relevance: float, anchor: float) -> None:
        """Removes the link from a page that had this relevance."""
        self.parents -= 1
        self.change_relevance(relevance, 0.0)
        self.change_anchor(anchor, 0.0)

    def change_relevance(self, before: float, relevance: float) -> None:
        """Changes the relevance of a linking page."""
        self.parents_sum += relevance - before
        self.best = max(self.best, relevance)
        if relevance < before:
            self.fell = max(self.fell, before)

    def change_anchor(self, before: float, anchor: float) -> None:
        """Changes the score of a link's text."""
        self.anchors += (anchor > 0) - (before > 0)
        self.anchor_sum += anchor - before


class LinkContext(Subject):
    """Parents, link texts and siblings of pages, and the values of pages."""

    def __init__(self, *, database: Database, sql: Statements) -> None:
        self._database, self._sql = database, sql
        by = page.alias("discoverer")
        columns = [by.c[_OF_PARENT[n]] if n in _OF_PARENT else page.c[n] for n in PageRow._fields]
        rows = select(*columns).join_from(page, by, by.c.id == page.c.parent_id, isouter=True)
        self._rows = sql.compiled(rows.where(sql.in_list(page.c.id, "ids")), ["ids"])
        self._revalue = self._update(["value"])
        self._renew = self._update(_RENEWED)
        source = page_link.join(page, page.c.id == page_link.c.source_id)
        best = select(page_link.c.target_id, func.max(page.c.relevance)).select_from(source)
        best = best.where(sql.in_list(page_link.c.target_id, "targets")).group_by(page_link.c.target_id)
        self._best_parents = sql.compiled(best, ["targets"])

    def _update(self, columns: list[str]) -> ForEachRow:
        """Returns the statement that updates these columns of frontier pages."""

        def change(source: ColumnSource) -> Executable:
            values: list[tuple[Any, Any]] = [(page.c[name], source[name]) for name in columns]
            conditions = page.c.id == source["key"], page.c.value.is_not(None)
            return update(page).ordered_values(*values).where(*conditions)

        return self._sql.for_each(change, {**{n: page.c[n].type for n in columns}, "key": page.c.id.type}, ["key"])

    @reads
    def around(self, connection: Connection, page_ids: Sequence[int]) -> list[PageRow]:
        """Returns the current link context of the pages, in no order."""
        rows: list[PageRow] = []
        for start in range(0, len(page_ids), CONTEXT_PIECE):
            some = self._sql.id_list(page_ids[start : start + CONTEXT_PIECE])
            rows += map(PageRow._make, run(connection, self._rows, some))
        return rows

    def apply(self, connection: Connection, deltas: Mapping[int, LinkContextDelta]) -> set[int]:
        """Applies the changes, by page id, to the link context of frontier pages; returns the pages' hosts.

        The links must be written before.
        """
        page_ids, hosts = sorted(deltas), set[int]()
        for start in range(0, len(page_ids), CONTEXT_PIECE):
            rows = [
                row
                for row in self.around.within(connection, page_ids[start : start + CONTEXT_PIECE])
                if row.value is not None
            ]
            best = self._fallen(connection, rows, deltas)
            now = [_with(row, deltas[row.id], best.get(row.id)) for row in rows]
            run_each(connection, self._renew, [(*(getattr(row, name) for name in _RENEWED), row.id) for row in now])
            hosts |= {row.host_id for row in rows}
        return hosts

    def write_values(self, connection: Connection, values: Sequence[tuple[int, float]]) -> None:
        """Writes (page id, value) of pages that are still on the frontier."""
        run_each(connection, self._revalue, [(value, page_id) for page_id, value in values])

    def _fallen(
        self, connection: Connection, rows: Sequence[PageRow], deltas: Mapping[int, LinkContextDelta]
    ) -> dict[int, float]:
        """Returns the best parent relevance of pages whose best parent lost relevance."""
        fallen = [row.id for row in rows if row.id in deltas and deltas[row.id].fell >= row.parents_best]
        if not fallen:
            return {}
        values = dict(map(tuple, run(connection, self._best_parents, self._sql.id_list(fallen))))
        return {page_id: values.get(page_id) or 0.0 for page_id in fallen}


def _with(row: PageRow, delta: LinkContextDelta, best: float | None) -> PageRow:
    """Returns the changed row; best: the best parent relevance, if it is not the larger of both."""
    return row._replace(
        parents=row.parents + delta.parents,
        # Differences of floats may be slightly negative.
        parents_sum=max(row.parents_sum + delta.parents_sum, 0.0),
        parents_best=max(row.parents_best, delta.best) if best is None else best,
        anchors=row.anchors + delta.anchors,
        anchor_sum=max(row.anchor_sum + delta.anchor_sum, 0.0),
        depth=min(row.depth, delta.depth),
    )


PIECE = 2_000
SWEEP = 256
"""Pages revalued at a time, in order of id."""
FRONT = 64
"""Best pages of the best hosts that are also revalued each time."""


def url_key(url: str) -> int:
    """Returns the 64-bit key of a page. With ten million pages the probability of a collision is one in 300,000."""
    return xxhash.xxh3_64_intdigest(url.encode("utf-8", "replace")) - (1 << 63)


_BECOMES = ["state", "reason", "site_id", "own", "asked_at"]
_NEW = ["key", "url", "host_id", "depth", "parent_id", "discovered_at", "step", "modified_at", "value", "anchor"]


class NewPage(NamedTuple):
    """A newly discovered frontier page, named as its columns; `url` normalised."""

    url: str
    depth: int
    discovered_at: float
    value: float = 0.0
    parent_id: int | None = None
    step: int = 0
    modified_at: float | None = None
    anchor: float = 0.0


class Frontier(Subject):
    """The pages from which the crawler requests the next, and the sites that some of them become."""

    def __init__(self, *, database: Database, sql: Statements, imports: SiteImport) -> None:
        self._database, self._sql, self._import = database, sql, imports
        self.link_context = LinkContext(database=database, sql=sql)
        self._ids = sql.compiled(select(page.c.key, page.c.id).where(sql.in_list(page.c.key, "keys")), ["keys"])
        self._hosts = sql.compiled(
            select(page_host.c.name, page_host.c.id).where(sql.in_list(page_host.c.name, "names")), ["names"]
        )
        self._new_host = sql.insert_each(page_host, ["name"], ["name"], [])
        self._new_page = sql.insert_each(page, _NEW, ["key"], [])
        kinds = {name: page.c[name].type for name in _BECOMES}
        self._become = sql.for_each(_become, {**kinds, "key": page.c.id.type}, ["key"])
        self._one_more_out = sql.for_each(_one_more_out, {"key": page_host.c.id.type}, ["key"])
        best = update(page_host).where(sql.in_list(page_host.c.id, "hosts")).values(best=_best_value())
        self._renew_best = sql.compiled(best, ["hosts"])
        unread = page.c.relevance.is_(None) | (site_state.c.last_seen_at < collection.c.words_at)
        polled = page.join(site_state, site_state.c.site_id == page.c.site_id).join(collection, true())
        before = select(page.c.id).select_from(polled).where(sql.in_list(page.c.id, "ids"), unread)
        self._unread = sql.compiled(before, ["ids"])
        self._best_pages = _best_of_hosts(sql)
        self._delete_sites = delete(site).where(sql.in_list(site.c.id, "sites"))

    @writes
    def begin(self, connection: Connection, topic: str, now: float, words: str = "") -> CollectionRow:
        """Returns the collection on this topic, or starts one. Raises `ConfigError` if there is one on another topic.

        words: identifies the scoring terms. When it changes, the pages held are unread until they are read again, and
        the sibling statistics are reset.
        """
        c = collection.c
        row = connection.execute(select(c.topic, c.requests, c.learned, c.words)).one_or_none()
        if row is None:
            first = {"id": 1, "topic": topic, "started_at": now, "words": words, "words_at": now}
            connection.execute(insert(collection).values(first))
            return CollectionRow(topic, 0, None)
        if row.topic != topic:
            raise ConfigError(
                _(
                    "topic: this database holds a collection on {stored!r}, not on {topic!r}; another topic needs "
                    "another database",
                    stored=row.topic,
                    topic=topic,
                )
            )
        if row.words != words:
            connection.execute(update(collection).values(words=words, words_at=now))
            connection.execute(
                update(page).where(page.c.children_retrieved > 0).values(children_retrieved=0, children_relevance=0.0)
            )
        # A host that had reached its limit may have room again under new settings.
        connection.execute(update(page_host).where(page_host.c.best.is_(None)).values(best=_best_value()))
        return CollectionRow(row.topic, row.requests, row.learned)

    @writes
    def recall(self, connection: Connection) -> int:
        """Without the crawler: deletes sites on trial and returns their pages to the frontier; returns how many."""
        asked = page.c.state == PageState.ASKED.value
        sites = list(connection.execute(select(page.c.site_id).where(asked)).scalars())
        if not sites:
            return 0
        hosts = list(connection.execute(select(page.c.host_id).where(asked).distinct()).scalars())
        connection.execute(self._delete_sites, {"sites": self._sql.id_list(sites)})
        back = {"state": PageState.FRONTIER.value, "site_id": None, "own": False, "value": FIRST_VALUE}
        connection.execute(update(page).where(asked).values(back))
        connection.execute(update(page_host).values(out=0))
        self.renew_hosts(connection, hosts)
        return len(sites)

    @reads
    def known(self, connection: Connection, urls: Sequence[str]) -> set[str]:
        """Returns the normalised URLs among these that are pages known to the crawler."""
        return self.ids(connection, urls).keys() & set(urls)

    def ids(self, connection: Connection, urls: Iterable[str]) -> dict[str, int]:
        """Returns the ids of those URLs that are pages."""
        keys = {url_key(url): url for url in urls}
        known, all_keys = dict[str, int](), list(keys)
        for start in range(0, len(all_keys), PIECE):
            rows = run(connection, self._ids, self._sql.id_list(all_keys[start : start + PIECE]))
            known.update((keys[key], page_id) for key, page_id in rows)
        return known

    def host_ids(self, connection: Connection, names: Iterable[str]) -> dict[str, int]:
        """Returns ids of hosts by name; adds new hosts."""
        unique = list(dict.fromkeys(names))
        known_ids = self._known_hosts(connection, unique)
        if len(known_ids) == len(unique):
            return known_ids
        run_each(connection, self._new_host, [(name,) for name in unique if name not in known_ids])
        return self._known_hosts(connection, unique)

    def _known_hosts(self, connection: Connection, names: Sequence[str]) -> dict[str, int]:
        rows = run(connection, self._hosts, self._sql.text_list(names)) if names else []
        return dict(map(tuple, rows))

    def add(self, connection: Connection, pages: Sequence[NewPage]) -> None:
        """Adds new pages. Known ones stay unchanged."""
        hosts = self.host_ids(connection, (host_of(page.url) for page in pages))
        rows = [
            (
                url_key(page.url),
                page.url,
                hosts[host_of(page.url)],
                page.depth,
                page.parent_id,
                page.discovered_at,
                page.step,
                page.modified_at,
                page.value,
                page.anchor,
            )
            for page in pages
        ]
        for start in range(0, len(rows), PIECE):
            run_each(connection, self._new_page, rows[start : start + PIECE])

    @writes
    def add_seeds(self, connection: Connection, urls: Sequence[str], now: float) -> int:
        """Adds new pages as seeds, to be requested before others; returns how many."""
        known = self.known.within(connection, urls)
        new = [url for url in dict.fromkeys(urls) if url not in known]
        if new:
            self.add(connection, [NewPage(url, 0, now, FIRST_VALUE) for url in new])
            self.renew_hosts(connection, self.host_ids(connection, map(host_of, new)).values())
        return len(new)

    def renew_hosts(self, connection: Connection, host_ids: Iterable[int]) -> None:
        """Recomputes `best` of the hosts from their pages."""
        if unique_ids := set(host_ids):
            run(connection, self._renew_best, self._sql.id_list(unique_ids))

    @reads
    def sweep(self, connection: Connection, after: int) -> tuple[list[PageRow], int]:
        """Returns the next pages to request, and some frontier pages with ids above `after`, to be revalued.

        Also returns the id to continue from; 0: from the beginning.
        """
        h = page_host.c
        front = select(_best_page()).where(h.best < FIRST_VALUE).order_by(h.best.desc()).limit(FRONT)
        some = select(page.c.id).where(page.c.state == PageState.FRONTIER.value, page.c.id > after)
        ids = list(connection.execute(some.order_by(page.c.id).limit(SWEEP)).scalars())
        ahead = [page_id for page_id in connection.execute(front).scalars() if page_id is not None]
        both = list(dict.fromkeys([*ids, *ahead]))
        return self.link_context.around.within(connection, both), ids[-1] if len(ids) == SWEEP else 0

    @writes
    def write_values(self, connection: Connection, values: Sequence[tuple[PageRow, float]]) -> None:
        """Writes the values of pages that are still on the frontier."""
        self.link_context.write_values(connection, [(row.id, value) for row, value in values])
        self.renew_hosts(connection, {row.host_id for row, _value in values})

    @writes
    def promote(
        self,
        connection: Connection,
        most: int,
        per_host: int,
        pages_per_host: int,
        weight: float,
        now: float,
        at: float | None = None,
    ) -> list[Trial]:
        """Puts the best frontier pages on trial as sites of this weight: one per host, `most` at most.

        Leaves out hosts with `per_host` pages on trial, and those with `pages_per_host` pages requested. A page whose
        URL is a user's site is added to the collection, and returned as held; one whose URL the user deleted is
        rejected. at: takes one page of the host at this position in the list of hosts instead, 0 to 1.
        """
        h = page_host.c
        free = and_(h.best.is_not(None), h.asked + h.out < pages_per_host, h.out < per_host)
        hosts = select(h.id, h.asked, h.out).where(free)
        if at is None:
            hosts = hosts.order_by(h.best.desc()).limit(most)
        else:
            last = connection.execute(select(func.max(h.id))).scalar_one() or 0
            hosts, most = hosts.where(h.id >= at * last).order_by(h.id).limit(1), 1
        room = {
            host_id: min(per_host - out, pages_per_host - asked - out)
            for host_id, asked, out in connection.execute(hosts)
        }
        chosen = self._best(connection, room, most)
        return self._put_on_trial(connection, chosen, weight, now) if chosen else []

    def _best(self, connection: Connection, room: dict[int, int], limit: int) -> list[int]:
        """Returns ids of the best pages of the hosts, `limit` at most, within the room of each host."""
        if not room:
            return []
        most = min(max(room.values()), limit)
        rows = connection.execute(self._best_pages, {"hosts": self._sql.id_list(room), "most": most})
        chosen, left = list[int](), dict(room)
        # Among equals the first discovered.
        for host_id, _value, page_id in sorted(rows, key=lambda row: (-row[1], row[2])):
            if left[host_id] > 0 and len(chosen) < limit:
                left[host_id] -= 1
                chosen.append(page_id)
        return chosen

    def _put_on_trial(self, connection: Connection, page_ids: list[int], weight: float, now: float) -> list[Trial]:
        rows = {row.id: row for row in self.link_context.around.within(connection, page_ids)}
        order = [rows[page_id] for page_id in page_ids]
        specs = [SiteSpec(row.url, weight=weight) for row in order]
        added = self._import.add(connection, specs, [host_of(row.url) for row in order], now, respect_deleted=True)
        own = {i: (site_id, host_id) for site_id, i, host_id in added.added}
        theirs = {i: site_id for site_id, i in added.existing}
        changes = [(*_becomes(i, own, theirs), i in own, now, row.id) for i, row in enumerate(order)]
        run_each(connection, self._become, changes)
        run_each(connection, self._one_more_out, [(order[i].host_id,) for i in own])
        self.renew_hosts(connection, {row.host_id for row in order})
        trials = [_trial(order[i], PageState.ASKED, site_id, host_id) for i, (site_id, host_id) in own.items()]
        held = [_trial(order[i], PageState.COLLECTED, site_id, -1, unread=True) for i, site_id in theirs.items()]
        return trials + held

    async def held(self) -> AsyncIterator[Trial]:
        """Yields all pages that are sites, on trial or in the collection, read in pieces."""
        after = 0
        while rows := await self._held_after(after):
            for row in rows:
                yield row
            after = rows[-1].page_id

    @reads
    def _held_after(self, connection: Connection, after: int) -> list[Trial]:
        states = (PageState.ASKED.value, PageState.COLLECTED.value)
        some = select(page.c.id).where(page.c.state.in_(states), page.c.site_id.is_not(None), page.c.id > after)
        ids = list(connection.execute(some.order_by(page.c.id).limit(PIECE)).scalars())
        rows = sorted(self.link_context.around.within(connection, ids), key=lambda row: row.id)
        unread = {page_id for (page_id,) in run(connection, self._unread, self._sql.id_list(ids))}
        return [_trial(row, PageState(row.state), row.site_id or -1, -1, unread=row.id in unread) for row in rows]


def _trial(row: PageRow, state: PageState, site_id: int, host_id: int, *, unread: bool = False) -> Trial:
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
        row.value or 0.0,
        row.relevance,
        row,
        unread,
    )


def _becomes(i: int, own: dict[int, tuple[int, int]], theirs: dict[int, int]) -> tuple[str, str, int | None]:
    """Returns state, reason and site of the i-th page."""
    if i in own:
        return PageState.ASKED.value, "", own[i][0]
    if i in theirs:
        return PageState.COLLECTED.value, "", theirs[i]
    return PageState.REJECTED.value, _("its site was deleted"), None


def _best_value() -> ScalarSelect[Any]:
    return select(func.max(page.c.value)).where(page.c.host_id == page_host.c.id).scalar_subquery()


def _become(source: ColumnSource) -> Executable:
    """Returns the statement that takes pages off the frontier, as requested or collected."""
    becomes: list[tuple[Any, Any]] = [(page.c[name], source[name]) for name in _BECOMES]
    return update(page).ordered_values(*becomes, (page.c.value, null())).where(page.c.id == source["key"])


def _one_more_out(source: ColumnSource) -> Executable:
    one_more = {"out": page_host.c.out + literal_column("1", BigInteger)}
    return update(page_host).where(page_host.c.id == source["key"]).values(one_more)


def _best_of_hosts(sql: Statements) -> Select[Any]:
    """Returns host, value and id of the best pages, `most` of each of the `hosts`; among equals the first."""
    some = page.alias("some")
    best = select(some.c.id, some.c.value).where(some.c.host_id == page_host.c.id, some.c.value.is_not(None))
    best = best.order_by(some.c.value.desc(), some.c.id).limit(bindparam("most")).correlate(page_host)
    condition = sql.in_list(page_host.c.id, "hosts")
    if sql.is_sqlite:
        # SQLite lacks LATERAL. Repeating here that the pages are the host's would make it read all of the host's pages.
        ids = best.with_only_columns(some.c.id)
        return (
            select(page_host.c.id, page.c.value, page.c.id)
            .join_from(page_host, page, page.c.id.in_(ids))
            .where(condition)
        )
    top = best.lateral("found")
    return select(page_host.c.id, top.c.value, top.c.id).join_from(page_host, top, true()).where(condition)


def _best_page() -> ScalarSelect[Any]:
    c = page.c
    best = select(c.id).where(c.host_id == page_host.c.id, c.value.is_not(None)).order_by(c.value.desc()).limit(1)
    return best.correlate(page_host).scalar_subquery()
