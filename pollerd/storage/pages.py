"""What polls found of the robot's pages, on its way into the database with those polls, in one transaction."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, ColumnElement, Connection, bindparam, delete, literal_column, select, update

from pollerd.model import PageState
from pollerd.storage.fringe import Fringe, NewPage
from pollerd.storage.page_values import Findings, LeadDraft, PageRecord
from pollerd.storage.schema import collection, page, page_host, page_link, site
from pollerd.storage.statements import Statements, run, run_each
from pollerd.storage.surroundings import Share

SIBLINGS_MOST = 500
"""Pages of one brood that are valued anew when another of it was retrieved."""


_LINK = ["source_id", "target_id", "anchor"]


class _Home(NamedTuple):
    """Where a page is known from, and its relevance as scored before."""

    host_id: int
    parent_id: int | None
    relevance: float


class PageCommit:
    """Writes page records; the caller owns the transaction."""

    def __init__(self, sql: Statements, fringe: Fringe) -> None:
        self._sql, self._fringe = sql, fringe
        c, link = page.c, page_link.c
        siblings = select(c.id).where(c.parent_id == bindparam("parent"), c.worth.is_not(None))
        # As SQLite's dialect writes a parameter of its own where no offset is named.
        some = siblings.order_by(c.worth.desc()).limit(_number(SIBLINGS_MOST)).offset(_number(0))
        self._siblings = sql.compiled(some, ["parent"])
        homes = select(c.id, c.host_id, c.parent_id, c.relevance).where(sql.among(c.id, "ids"))
        self._homes = sql.compiled(homes, ["ids"])
        links = select(link.source_id, link.target_id, link.anchor).where(sql.among(link.source_id, "sources"))
        self._links_of = sql.compiled(links, ["sources"])
        added = page_link.insert().values({name: bindparam(name) for name in _LINK})
        self._add_link = sql.compiled(added, _LINK)
        one = link.source_id == bindparam("source"), link.target_id == bindparam("target")
        self._unlink = sql.compiled(delete(page_link).where(*one), ["source", "target"])
        retold = update(page_link).where(*one).values(anchor=bindparam("anchor"))
        self._retell = sql.compiled(retold, ["anchor", "source", "target"])
        grown = update(page).where(c.id == bindparam("page")).values(brood=c.brood + bindparam("more"))
        self._grow = sql.compiled(grown, ["more", "page"])
        self._end_sites = delete(site).where(sql.among(site.c.id, "sites"))

    def __call__(
        self, connection: Connection, records: Sequence[tuple[int, float, PageRecord]], findings: Findings
    ) -> None:
        """Write (site id, time of the poll, record) of sites that still stand, and what else was found."""
        homes = self._homes_of(connection, [record.page_id for _, _, record in records])
        touched, hosts = set[int](), set[int]()
        for site_id, _, record in records:
            self._write(connection, site_id, record)
            if record.on_trial and record.state is not PageState.ASKED:
                hosts.add(homes[record.page_id].host_id)
                touched |= self._count(connection, record, homes[record.page_id])
        read = [(at, record) for _, at, record in records if record.leads is not None]
        shares = self._link(connection, read, homes, findings.step) if read else {}
        around = sorted(touched | shares.keys())
        hosts |= self._fringe.surroundings.renew(connection, around, findings.appraise, shares)
        self._fringe.renew_hosts(connection, hosts)
        self._drop(connection, findings.dropped)
        self._delete(connection, [site_id for site_id, _, record in records if record.ended])
        self._count_requests(connection, [record for _, _, record in records], findings.learned)

    def _homes_of(self, connection: Connection, page_ids: Iterable[int]) -> dict[int, _Home]:
        rows = run(connection, self._homes, self._sql.many(page_ids))
        return {page_id: _Home(host_id, parent_id, relevance or 0.0) for page_id, host_id, parent_id, relevance in rows}

    @staticmethod
    def _write(connection: Connection, site_id: int, record: PageRecord) -> None:
        values: dict[str, Any] = {"state": record.state.value, "reason": record.reason}
        if record.relevance is not None:
            values["relevance"] = record.relevance
        if record.ended or record.state in (PageState.REJECTED, PageState.GONE):
            values |= {"site_id": None, "own": False}
        connection.execute(update(page).where(page.c.id == record.page_id).values(values))
        if record.weight is not None:
            connection.execute(update(site).where(site.c.id == site_id).values(weight=record.weight))

    def _count(self, connection: Connection, record: PageRecord, home: _Home) -> set[int]:
        """A page on trial was judged: its host and its brood count it; the siblings, which are worth another now."""
        h, c = page_host.c, page.c
        connection.execute(update(page_host).where(h.id == home.host_id).values(asked=h.asked + 1, out=h.out - 1))
        if home.parent_id is None:
            return set()
        brood = {"brood_asked": c.brood_asked + 1, "brood_sum": c.brood_sum + (record.relevance or 0.0)}
        connection.execute(update(page).where(c.id == home.parent_id).values(brood))
        return {row[0] for row in run(connection, self._siblings, home.parent_id)}

    def _link(
        self, connection: Connection, read: Sequence[tuple[float, PageRecord]], homes: Mapping[int, _Home], step: int
    ) -> dict[int, Share]:
        """Discovers what is new and brings links up to date; what that adds to what is known around pages."""
        ids = self._fringe.ids(connection, {lead.url for _, record in read for lead in record.leads or ()})
        ids |= self._discover(connection, read, ids, step)
        there: defaultdict[int, dict[int, float]] = defaultdict(dict)
        sources = self._sql.many(record.page_id for _, record in read)
        for source, target, anchor in run(connection, self._links_of, sources):
            there[source][target] = anchor
        changes = _Links()
        for _, record in read:
            wanted = {ids[lead.url]: lead.anchor for lead in record.leads or () if lead.counted and lead.url in ids}
            changes.relink(record, homes[record.page_id].relevance, there[record.page_id], wanted)
        run_each(connection, self._unlink, changes.gone)
        run_each(connection, self._add_link, changes.fresh)
        run_each(connection, self._retell, changes.retold)
        return changes.shares

    def _discover(
        self, connection: Connection, read: Sequence[tuple[float, PageRecord]], known: Mapping[str, int], step: int
    ) -> dict[str, int]:
        """Adds pages that are new; their ids by URL."""
        new: dict[str, NewPage] = {}
        for at, record in read:
            for lead in record.leads or ():
                if lead.url not in known and lead.url not in new:
                    new[lead.url] = _new_page(lead, record, at, step)
        if not new:
            return {}
        self._fringe.add(connection, list(new.values()))
        broods = Counter(one.parent_id for one in new.values())
        run_each(connection, self._grow, [(count, page_id) for page_id, count in broods.items()])
        return self._fringe.ids(connection, new)

    def _drop(self, connection: Connection, dropped: Sequence[tuple[int, int]]) -> None:
        if dropped:
            connection.execute(_CROWDED_OUT, [{"page": page_id} for page_id, _ in dropped])
            self._delete(connection, [site_id for _, site_id in dropped])

    def _delete(self, connection: Connection, sites: Sequence[int]) -> None:
        if sites:
            connection.execute(self._end_sites, {"sites": self._sql.many(sites)})

    @staticmethod
    def _count_requests(connection: Connection, records: Sequence[PageRecord], learned: bytes | None) -> None:
        judged = [record for record in records if record.on_trial and record.state is not PageState.ASKED]
        enrolled = sum(record.state is PageState.COLLECTED for record in judged)
        c = collection.c
        values: dict[str, Any] = {"requests": c.requests + len(judged), "enrolled": c.enrolled + enrolled}
        if learned is not None:
            values["learned"] = learned
        connection.execute(update(collection).values(values))


class _Links:
    """What becomes of links, as rows, and of what is known around the pages that they lead to."""

    def __init__(self) -> None:
        self.gone: list[tuple[int, int]] = []
        self.fresh: list[tuple[int, int, float]] = []
        self.retold: list[tuple[float, int, int]] = []
        self.shares: defaultdict[int, Share] = defaultdict(Share)

    def relink(
        self, record: PageRecord, before: float, there: Mapping[int, float], wanted: Mapping[int, float]
    ) -> None:
        """A page of relevance `before` linked to the pages `there`, and links to those that are `wanted` now.

        Both give the scores of the links' texts by page id.
        """
        source, relevance = record.page_id, before if record.relevance is None else record.relevance
        for target, anchor in there.items():
            if target not in wanted:
                self.gone.append((source, target))
                self.shares[target].unlink(before, anchor)
                continue
            if wanted[target] != anchor:
                self.retold.append((wanted[target], source, target))
                self.shares[target].told(anchor, wanted[target])
            if relevance != before:
                self.shares[target].moved(before, relevance)
        for target in wanted.keys() - there.keys():
            self.fresh.append((source, target, wanted[target]))
            self.shares[target].link(relevance, wanted[target], record.depth + 1)


def _number(value: int) -> ColumnElement[int]:
    """A number as it stands, which is no parameter."""
    return literal_column(str(value), BigInteger)


def _new_page(lead: LeadDraft, record: PageRecord, at: float, step: int) -> NewPage:
    return NewPage(lead.url, record.depth + 1, at, 0.0, record.page_id, step, lead.modified_at, lead.anchor)


_CROWDED_OUT = (
    update(page)
    .where(page.c.id == bindparam("page"))
    .values(state=PageState.REJECTED.value, reason="crowded out", site_id=None, own=False)
)
