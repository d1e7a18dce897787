"""What polls found of the robot's pages, on its way into the database with those polls, in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, case, delete, select, update

from pollerd.model import PageState
from pollerd.storage.fringe import Fringe
from pollerd.storage.page_values import Findings, LeadDraft, PageRecord
from pollerd.storage.schema import collection, page, page_host, page_link, site
from pollerd.storage.statements import Statements

SIBLINGS_MOST = 500
"""Pages of one brood that are valued anew when another of it was retrieved."""


class PageCommit:
    """Writes page records; the caller owns the transaction."""

    def __init__(self, sql: Statements, fringe: Fringe) -> None:
        self._sql, self._fringe = sql, fringe
        self._siblings = (
            select(page.c.id)
            .where(page.c.parent_id == bindparam("parent"), page.c.worth.is_not(None))
            .order_by(page.c.worth.desc())
            .limit(SIBLINGS_MOST)
        )
        self._links_of = select(page_link.c.target_id, page_link.c.anchor).where(
            page_link.c.source_id == bindparam("source")
        )
        self._unlink = delete(page_link).where(
            page_link.c.source_id == bindparam("source"), sql.among(page_link.c.target_id, "targets")
        )
        self._homes = select(page.c.id, page.c.host_id, page.c.parent_id).where(sql.among(page.c.id, "ids"))
        self._end_sites = delete(site).where(sql.among(site.c.id, "sites"))

    def __call__(
        self, connection: Connection, records: Sequence[tuple[int, float, PageRecord]], findings: Findings
    ) -> None:
        """Write (site id, time of the poll, record) of sites that still stand, and what else was found."""
        homes = self._homes_of(connection, [record.page_id for _, _, record in records])
        touched, hosts = set[int](), set[int]()
        for site_id, at, record in records:
            self._write(connection, site_id, record)
            if record.on_trial and record.state is not PageState.ASKED:
                hosts.add(homes[record.page_id][0])
                touched |= self._count(connection, record, *homes[record.page_id])
            if record.leads is not None:
                touched |= self._link(connection, record, at, findings.step)
        hosts |= self._fringe.appraise(connection, sorted(touched), findings.appraise)
        self._fringe.renew_hosts(connection, hosts)
        self._drop(connection, findings.dropped)
        self._delete(connection, [site_id for site_id, _, record in records if record.ended])
        self._count_requests(connection, [record for _, _, record in records], findings.learned)

    def _homes_of(self, connection: Connection, page_ids: Iterable[int]) -> dict[int, tuple[int, int | None]]:
        """Host and discoverer of pages."""
        rows = connection.execute(self._homes, {"ids": self._sql.many(page_ids)})
        return {page_id: (host_id, parent_id) for page_id, host_id, parent_id in rows}

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

    def _count(self, connection: Connection, record: PageRecord, host_id: int, parent_id: int | None) -> set[int]:
        """A page on trial was judged: its host and its brood count it; the siblings, which are worth another now."""
        h, c = page_host.c, page.c
        connection.execute(update(page_host).where(h.id == host_id).values(asked=h.asked + 1, out=h.out - 1))
        if parent_id is None:
            return set()
        brood = {"brood_asked": c.brood_asked + 1, "brood_sum": c.brood_sum + (record.relevance or 0.0)}
        connection.execute(update(page).where(c.id == parent_id).values(brood))
        return set(connection.execute(self._siblings, {"parent": parent_id}).scalars())

    def _link(self, connection: Connection, record: PageRecord, at: float, step: int) -> set[int]:
        """Discovers what is new and brings the page's links up to date; the pages that it led or leads to."""
        leads = {lead.url: lead for lead in record.leads or ()}
        known = self._fringe.known(connection, list(leads))
        new = [lead for url, lead in leads.items() if url not in known]
        if new:
            self._fringe.add(connection, [_new_page(lead, record, at, step) for lead in new])
            brood = page.c.brood + len(new)
            connection.execute(update(page).where(page.c.id == record.page_id).values(brood=brood))
        ids = self._fringe.ids(connection, leads)
        wanted = {ids[url]: lead.anchor for url, lead in leads.items() if url in ids and lead.counted}
        there = dict[int, float](map(tuple, connection.execute(self._links_of, {"source": record.page_id})))
        gone = {target: anchor for target, anchor in there.items() if target not in wanted}
        fresh = {target: anchor for target, anchor in wanted.items() if target not in there}
        self._relink(connection, record, gone, fresh)
        return gone.keys() | fresh.keys() | {ids[lead.url] for lead in new if lead.url in ids}

    def _relink(
        self, connection: Connection, record: PageRecord, gone: dict[int, float], fresh: dict[int, float]
    ) -> None:
        relevance = record.relevance or 0.0
        if gone:
            targets = self._sql.many(gone)
            connection.execute(self._unlink, {"source": record.page_id, "targets": targets})
            connection.execute(_UNSEEN, [_seen(target, relevance, anchor) for target, anchor in gone.items()])
        if fresh:
            rows = [{"source_id": record.page_id, "target_id": t, "anchor": a} for t, a in fresh.items()]
            connection.execute(page_link.insert(), rows)
            near = {"deeper": record.depth + 1}
            connection.execute(_SEEN, [{**_seen(t, relevance, a), **near} for t, a in fresh.items()])

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


def _new_page(lead: LeadDraft, record: PageRecord, at: float, step: int) -> dict[str, Any]:
    return {
        "url": lead.url,
        "depth": record.depth + 1,
        "parent_id": record.page_id,
        "discovered_at": at,
        "step": step,
        "modified_at": lead.modified_at,
        "anchor": lead.anchor,
        "worth": 0.0,
    }


def _seen(target: int, relevance: float, anchor: float) -> dict[str, Any]:
    return {"target": target, "by": relevance, "told": int(anchor > 0), "score": anchor}


_c = page.c
_ON_FRINGE = page.c.id == bindparam("target"), page.c.worth.is_not(None)
_SEEN = (
    update(page)
    .where(*_ON_FRINGE)
    .values(
        parents=_c.parents + 1,
        parents_sum=_c.parents_sum + bindparam("by"),
        parents_best=case((_c.parents_best < bindparam("by"), bindparam("by")), else_=_c.parents_best),
        anchors=_c.anchors + bindparam("told"),
        anchor_sum=_c.anchor_sum + bindparam("score"),
        depth=case((_c.depth > bindparam("deeper"), bindparam("deeper")), else_=_c.depth),
    )
)
_UNSEEN = (
    update(page)
    .where(*_ON_FRINGE)
    .values(
        parents=_c.parents - 1,
        parents_sum=_c.parents_sum - bindparam("by"),
        anchors=_c.anchors - bindparam("told"),
        anchor_sum=_c.anchor_sum - bindparam("score"),
    )
)
_CROWDED_OUT = (
    update(page)
    .where(page.c.id == bindparam("page"))
    .values(state=PageState.REJECTED.value, reason="crowded out", site_id=None, own=False)
)
