"""Results of polls on the crawler's pages, written in the transaction of those polls."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Executable,
    and_,
    bindparam,
    case,
    delete,
    func,
    literal_column,
    null,
    select,
    true,
    update,
)

from pollerd.model import PageState
from pollerd.storage.crawler.frontier import Frontier, LinkContextDelta, NewPage
from pollerd.storage.page_values import CrawlUpdate, OutLinkDraft, PageRecord
from pollerd.storage.schema import collection, page, page_host, page_link, site
from pollerd.storage.statements import ColumnSource, Statements, columns_of, run, run_each

SIBLINGS_MOST = 500
"""Most children of a page that are revalued when another child was retrieved."""


_LINK = ["source_id", "target_id", "anchor"]


class _PageOrigin(NamedTuple):
    """A page's host, the page on which it was discovered, and its previous relevance."""

    host_id: int
    parent_id: int | None
    relevance: float


def _is_link(source: ColumnSource) -> tuple[ColumnElement[bool], ...]:
    return page_link.c.source_id == source["source"], page_link.c.target_id == source["target"]


def _unlink(source: ColumnSource) -> Executable:
    return delete(page_link).where(*_is_link(source))


def _update_anchor(source: ColumnSource) -> Executable:
    return update(page_link).where(*_is_link(source)).values(anchor=source["anchor"])


def _judge(source: ColumnSource) -> Executable:
    """Updates a judged page: keeps the relevance if none is given, and removes the site unless it is kept."""
    c = page.c
    return (
        update(page)
        .ordered_values(
            (c.state, source["state"]),
            (c.reason, source["reason"]),
            (c.relevance, func.coalesce(source["relevance"], c.relevance)),
            (c.site_id, case((source["keeps_site"], c.site_id), else_=null())),
            (c.own, and_(c.own, source["keeps_own"])),
        )
        .where(c.id == source["key"])
    )


def _judged_row(record: PageRecord) -> tuple[Any, ...]:
    keeps = not (record.ended or record.state in (PageState.REJECTED, PageState.GONE))
    return record.state.value, record.reason, record.relevance, keeps, keeps, record.page_id


def _count_host(source: ColumnSource) -> Executable:
    h, increment = page_host.c, _number(1)
    return update(page_host).where(h.id == source["key"]).values(asked=h.asked + increment, out=h.out - increment)


def _count_child(source: ColumnSource) -> Executable:
    c = page.c
    siblings = [
        (c.children_retrieved, c.children_retrieved + _number(1)),
        (c.children_relevance, c.children_relevance + source["relevance"]),
    ]
    return update(page).ordered_values(*siblings).where(c.id == source["key"])


def _siblings(sql: Statements) -> str:
    """Returns the statement for a page's best children on the frontier; on PostgreSQL for an array of parents."""
    parents = columns_of({"parent": BigInteger()})
    parent = bindparam("parent") if sql.is_sqlite else parents.c.parent
    on_frontier = select(page.c.id).where(page.c.parent_id == parent, page.c.value.is_not(None))
    # Without a named offset SQLite's dialect adds a parameter of its own.
    best = on_frontier.order_by(page.c.value.desc()).limit(_number(SIBLINGS_MOST)).offset(_number(0))
    if sql.is_sqlite:
        return sql.compiled(best, ["parent"])
    some = best.lateral("some")
    return sql.compiled(select(some.c.id).select_from(parents.join(some, true())), ["parent"])


def _count_children(source: ColumnSource) -> Executable:
    return update(page).where(page.c.id == source["key"]).values(child_count=page.c.child_count + source["more"])


class PageCommit:
    """Writes page records; the caller owns the transaction."""

    def __init__(self, sql: Statements, frontier: Frontier) -> None:
        self._sql, self._frontier = sql, frontier
        c, link, number = page.c, page_link.c, BigInteger()
        self._siblings = _siblings(sql)
        kinds = {"state": c.state.type, "reason": c.reason.type, "relevance": c.relevance.type}
        self._judge = sql.for_each(
            _judge, kinds | {"keeps_site": c.own.type, "keeps_own": c.own.type, "key": number}, ["key"]
        )
        self._weigh = sql.update_each(site, ["weight"])
        self._count_host = sql.for_each(_count_host, {"key": number}, ["key"])
        self._count_child = sql.for_each(_count_child, {"relevance": c.relevance.type, "key": number}, ["key"])
        origins = select(c.id, c.host_id, c.parent_id, c.relevance).where(sql.in_list(c.id, "ids"))
        self._origins = sql.compiled(origins, ["ids"])
        links = select(link.source_id, link.target_id, link.anchor).where(sql.in_list(link.source_id, "sources"))
        self._links_of = sql.compiled(links, ["sources"])
        self._add_link = sql.insert_each(page_link, _LINK)
        self._unlink = sql.for_each(_unlink, {"source": number, "target": number})
        anchors = {"anchor": link.anchor.type, "source": number, "target": number}
        self._update_anchor = sql.for_each(_update_anchor, anchors, ["source", "target"])
        self._count_children = sql.for_each(_count_children, {"more": c.child_count.type, "key": number}, ["key"])
        self._end_sites = delete(site).where(sql.in_list(site.c.id, "sites"))

    def __call__(
        self, connection: Connection, records: Sequence[tuple[int, float, PageRecord]], findings: CrawlUpdate
    ) -> tuple[int, ...]:
        """Writes (site id, time of the poll, record) of sites that still exist, and the crawl update.

        Returns ids of frontier pages whose link context has changed: their values are outdated.
        """
        origins = self._origins_of(connection, [record.page_id for _, _, record in records])
        self._write(connection, records)
        hosts, touched = self._count(connection, [r for _, _, r in records if r.is_judged], origins)
        read = [(at, record) for _, at, record in records if record.out_links is not None]
        deltas = self._link(connection, read, origins, findings.step) if read else {}
        self._frontier.renew_hosts(connection, hosts | self._frontier.link_context.apply(connection, deltas))
        self._drop(connection, findings.dropped)
        self._delete(connection, [site_id for site_id, _, record in records if record.ended])
        self._count_requests(connection, [record for _, _, record in records], findings.learned)
        return tuple(sorted(touched | deltas.keys()))

    def _origins_of(self, connection: Connection, page_ids: Iterable[int]) -> dict[int, _PageOrigin]:
        rows = run(connection, self._origins, self._sql.id_list(page_ids))
        return {
            page_id: _PageOrigin(host_id, parent_id, relevance or 0.0)
            for page_id, host_id, parent_id, relevance in rows
        }

    def _write(self, connection: Connection, records: Sequence[tuple[int, float, PageRecord]]) -> None:
        run_each(connection, self._judge, [_judged_row(record) for _, _, record in records])
        weighed = [(record.weight, site_id) for site_id, _, record in records if record.weight is not None]
        run_each(connection, self._weigh, weighed)

    def _count(
        self, connection: Connection, judged: Sequence[PageRecord], origins: Mapping[int, _PageOrigin]
    ) -> tuple[set[int], set[int]]:
        """Counts judged pages at their hosts and their parents.

        Returns the hosts, and the siblings whose values are outdated now.
        """
        hosts = [origins[record.page_id].host_id for record in judged]
        run_each(connection, self._count_host, [(host_id,) for host_id in hosts])
        children = [
            (record.relevance or 0.0, parent_id)
            for record in judged
            if (parent_id := origins[record.page_id].parent_id) is not None
        ]
        run_each(connection, self._count_child, children)
        return set(hosts), self._siblings_of(connection, sorted({parent_id for _, parent_id in children}))

    def _siblings_of(self, connection: Connection, parents: Sequence[int]) -> set[int]:
        if self._sql.is_sqlite:
            return {row[0] for parent_id in parents for row in run(connection, self._siblings, parent_id)}
        return {row[0] for row in run(connection, self._siblings, list(parents))} if parents else set()

    def _link(
        self,
        connection: Connection,
        read: Sequence[tuple[float, PageRecord]],
        origins: Mapping[int, _PageOrigin],
        step: int,
    ) -> dict[int, LinkContextDelta]:
        """Adds new pages and updates links; returns the changes of the link context by page id."""
        ids = self._frontier.ids(
            connection, {out_link.url for _, record in read for out_link in record.out_links or ()}
        )
        ids |= self._discover(connection, read, ids, step)
        former: defaultdict[int, dict[int, float]] = defaultdict(dict)
        sources = self._sql.id_list(record.page_id for _, record in read)
        for source, target, anchor in run(connection, self._links_of, sources):
            former[source][target] = anchor
        changes = _Links()
        for _, record in read:
            present = {
                ids[out_link.url]: out_link.anchor
                for out_link in record.out_links or ()
                if out_link.counted and out_link.url in ids
            }
            changes.relink(record, origins[record.page_id].relevance, former[record.page_id], present)
        run_each(connection, self._unlink, changes.removed)
        run_each(connection, self._add_link, changes.added)
        run_each(connection, self._update_anchor, changes.anchors_changed)
        return changes.deltas

    def _discover(
        self, connection: Connection, read: Sequence[tuple[float, PageRecord]], known: Mapping[str, int], step: int
    ) -> dict[str, int]:
        """Adds new pages; returns their ids by URL."""
        new: dict[str, NewPage] = {}
        for at, record in read:
            for out_link in record.out_links or ():
                if out_link.url not in known and out_link.url not in new:
                    new[out_link.url] = _new_page(out_link, record, at, step)
        if not new:
            return {}
        self._frontier.add(connection, list(new.values()))
        children = Counter(row.parent_id for row in new.values())
        run_each(connection, self._count_children, [(count, page_id) for page_id, count in children.items()])
        return self._frontier.ids(connection, new)

    def _drop(self, connection: Connection, dropped: Sequence[tuple[int, int]]) -> None:
        if dropped:
            connection.execute(_CROWDED_OUT, [{"page": page_id} for page_id, _ in dropped])
            self._delete(connection, [site_id for _, site_id in dropped])

    def _delete(self, connection: Connection, sites: Sequence[int]) -> None:
        if sites:
            connection.execute(self._end_sites, {"sites": self._sql.id_list(sites)})

    @staticmethod
    def _count_requests(connection: Connection, records: Sequence[PageRecord], learned: bytes | None) -> None:
        judged = [record for record in records if record.is_judged]
        enrolled = sum(record.state is PageState.COLLECTED for record in judged)
        c = collection.c
        values: dict[str, Any] = {"requests": c.requests + len(judged), "enrolled": c.enrolled + enrolled}
        if learned is not None:
            values["learned"] = learned
        connection.execute(update(collection).values(values))


class _Links:
    """Changes of links, as rows, and of the link context of their targets."""

    def __init__(self) -> None:
        self.removed: list[tuple[int, int]] = []
        self.added: list[tuple[int, int, float]] = []
        self.anchors_changed: list[tuple[float, int, int]] = []
        self.deltas: defaultdict[int, LinkContextDelta] = defaultdict(LinkContextDelta)

    def relink(
        self, record: PageRecord, before: float, former: Mapping[int, float], present: Mapping[int, float]
    ) -> None:
        """Compares the former links of a page with its present ones, `former` and `present`; `before`: its former
        relevance.

        Both map page ids to scores of the links' texts.
        """
        source, relevance = record.page_id, before if record.relevance is None else record.relevance
        for target, anchor in former.items():
            if target not in present:
                self.removed.append((source, target))
                self.deltas[target].unlink(before, anchor)
                continue
            if present[target] != anchor:
                self.anchors_changed.append((present[target], source, target))
                self.deltas[target].change_anchor(anchor, present[target])
            if relevance != before:
                self.deltas[target].change_relevance(before, relevance)
        for target in present.keys() - former.keys():
            self.added.append((source, target, present[target]))
            self.deltas[target].link(relevance, present[target], record.depth + 1)


def _number(value: int) -> ColumnElement[int]:
    """Returns a literal number, which is not a parameter."""
    return literal_column(str(value), BigInteger)


def _new_page(out_link: OutLinkDraft, record: PageRecord, at: float, step: int) -> NewPage:
    return NewPage(out_link.url, record.depth + 1, at, 0.0, record.page_id, step, out_link.modified_at, out_link.anchor)


_CROWDED_OUT = (
    update(page)
    .where(page.c.id == bindparam("page"))
    .values(state=PageState.REJECTED.value, reason="crowded out", site_id=None, own=False)
)
