"""Reads of changes, as reported, and the half-lives of interest that follow from them.

A report is one transaction, which finds the changes that were read and updates the half-lives.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import structlog
from sqlalchemy import Connection, Double, Select, bindparam, delete, func, literal, literal_column, select, update

from pollerd.allocation.reads import (
    NO_EVIDENCE,
    HalfLife,
    HostEvidence,
    OpenChange,
    PublishedChange,
    Read,
    ReadCounts,
    ReadStatistics,
    SiteReads,
)
from pollerd.errors import InvalidValueError, NotFoundError
from pollerd.storage.engine import Database
from pollerd.storage.schema import change, interest, poll, read_report, site, site_mark, site_reads, site_state
from pollerd.storage.statements import Statements
from pollerd.storage.transactions import Subject, reads, writes
from pollerd.texts import N_, _


@dataclass(frozen=True, kw_only=True)
class ReadRules:
    """The formulas of `allocation.reads`, which are evaluated between reading and writing the rows."""

    take: Callable[
        [SiteReads, Sequence[PublishedChange], Sequence[Read], float | None, float], tuple[SiteReads, ReadCounts]
    ]
    """As `take_reads`."""
    evidence: Callable[[SiteReads], HostEvidence]
    """What a site's reads say of its host."""
    estimate: Callable[[SiteReads, float | None, HostEvidence], HalfLife]
    """From a site's reads, the half-life that its user gave, and the evidence of the other sites of its host."""
    moved: Callable[[float | None, float], bool]
    """Whether a half-life differs noticeably from the one in force, None: the default, so that it takes its place."""


@dataclass(frozen=True, slots=True)
class ReportedRead:
    """Reads of a change, as a program reports them: of a site by its id, or by its URL, normalised."""

    at: float
    """Epoch s."""
    count: int = 1
    site_id: int | None = None
    url: str | None = None
    change_id: int | None = None
    """None: the newest that was published then."""


@dataclass(frozen=True, kw_only=True)
class ReadReport:
    """A report of reads, checked."""

    report: str
    """Names it: a report of the same name is not taken twice."""
    reads: Mapping[int, Sequence[Read]]
    """Site id -> reads of its changes."""
    given: Mapping[int, float | None]
    """Site id -> the half-life that a user gave; None: none."""
    complete_until: float | None = None
    """All reads of these sites until then, epoch s, are told; None: that is not known."""
    unknown_sites: int = 0
    """Reads of URLs and ids that are no sites."""


@dataclass(frozen=True, slots=True)
class ReadResult:
    """What became of a report, in reads."""

    counts: ReadCounts
    unknown_sites: int
    repeated: bool = False
    """It was taken before: nothing changed."""
    half_lives: Mapping[int, float] = field(default_factory=dict)
    """Site id -> learned half-life, s, of sites for which it moved noticeably."""


@dataclass(frozen=True, slots=True)
class SiteInterest:
    """What is known of the reads of one site's changes."""

    reads: int
    changes: int
    """Changes that were read."""
    last_read_at: float | None
    half_life: HalfLife | None
    """As of the last report."""
    in_force: float | None
    """The learned half-life, s, by which it is polled where none is given; None: it does not differ enough."""


REMEMBERED_SECONDS = 2 * 86_400.0
"""How long reports are known by their names."""
MAX_CHANGES = 20_000
"""Changes that the reads of one report may span."""
_PARTS = ("reads", "unknown_sites", "before_changes", "other_changes", "between_polls")
_OF_CHANGE = ("id", "site_id", "detected_at", "previous_poll_at", "poll_at")
_LONGEST_POLL_SECONDS = 600


class ReadStore(Subject):
    """Reads of changes."""

    def __init__(self, *, database: Database, sql: Statements) -> None:
        self._database, self._sql = database, sql

    @writes
    def take(self, connection: Connection, report: ReadReport, rules: ReadRules, now: float) -> ReadResult:
        """Takes a report, in one transaction; a repeated one changes nothing, and gives what the first one did.

        Sites that are gone count as unknown. Raises `InvalidValueError` if its reads span too many changes.
        """
        c = read_report.c
        connection.execute(delete(read_report).where(c.received_at < now - REMEMBERED_SECONDS))
        named = self._sql.insert_for(read_report).values(report=report.report, received_at=now)
        if not connection.execute(named.on_conflict_do_nothing()).rowcount:
            before = connection.execute(select(*(c[name] for name in _PARTS)).where(c.report == report.report)).one()
            return ReadResult(ReadCounts(before[0], *before[2:]), before[1], repeated=True)
        host_of = self._living(connection, report.reads)
        unknown = report.unknown_sites
        unknown += sum(read.count for id_, reads in report.reads.items() if id_ not in host_of for read in reads)
        sites = self._rows(connection, host_of)
        reads = {id_: report.reads[id_] for id_ in sites}
        # In this order: a change that is committed in between was not seen by the last poll.
        seen = self._last_seen(connection, sites)
        counts, changes = ReadCounts(), self._changes(connection, sites, reads)
        for id_ in sites:
            until = seen.get(id_, -math.inf)
            sites[id_], some = rules.take(sites[id_], changes[id_], reads[id_], report.complete_until, until)
            counts += some
        half_lives = self._learn(connection, sites, report, rules, host_of)
        values = dict(zip(_PARTS, _parts(counts, unknown), strict=True))
        connection.execute(update(read_report).where(c.report == report.report).values(values))
        return ReadResult(counts, unknown, half_lives=half_lives)

    @reads
    def of_site(self, connection: Connection, site_id: int) -> SiteInterest | None:
        """Returns what is known of the reads of a site's changes; None: none were told."""
        r = site_reads.c
        columns = (r.reads, r.changes, r.last_read_at, r.half_life, r.half_life_low, r.half_life_high)
        statement = select(*columns, interest.c.learned_half_life)
        statement = statement.outerjoin_from(site_reads, interest, interest.c.site_id == r.site_id)
        row = connection.execute(statement.where(r.site_id == site_id)).one_or_none()
        if row is None or not row.reads:
            return None
        half_life = None
        if row.half_life is not None:
            half_life = HalfLife(row.half_life, row.half_life_low, row.half_life_high)
        return SiteInterest(row.reads, row.changes, row.last_read_at, half_life, row.learned_half_life)

    @reads
    def half_lives(self, connection: Connection, site_ids: Collection[int]) -> dict[int, float]:
        """Returns the learned half-lives in force of those of these sites that have one, s."""
        c = interest.c
        statement = select(c.site_id, c.learned_half_life).where(self._sql.in_list(c.site_id, "sites"))
        parameters = {"sites": self._sql.id_list(site_ids)}
        return {row.site_id: row.learned_half_life for row in connection.execute(statement, parameters)}

    @writes
    def forget(self, connection: Connection, site_id: int) -> None:
        """Forget the reads of a site's changes, and their half-life. Raises `NotFoundError`."""
        if not connection.execute(delete(site_reads).where(site_reads.c.site_id == site_id)).rowcount:
            raise NotFoundError(N_("reads of site"), site_id)
        connection.execute(delete(interest).where(interest.c.site_id == site_id))

    def _living(self, connection: Connection, site_ids: Collection[int]) -> dict[int, int]:
        """Returns the hosts' ids of those of the sites that are there, by site id; they stay until the commit."""
        statement = select(site.c.id, site.c.host_id).where(self._sql.in_list(site.c.id, "sites"))
        statement = statement.where(site.c.id.not_in(select(site_mark.c.site_id))).order_by(site.c.id)
        rows = connection.execute(
            statement.with_for_update(read=True, key_share=True), {"sites": self._sql.id_list(site_ids)}
        )
        return {row.id: row.host_id for row in rows}

    def _last_seen(self, connection: Connection, site_ids: Collection[int]) -> dict[int, float]:
        """Returns when polls saw the sites last, epoch s, of those that any did."""
        c = site_state.c
        statement = select(c.site_id, c.last_seen_at).where(self._sql.in_list(c.site_id, "sites"))
        rows = connection.execute(statement.where(c.last_seen_at.is_not(None)), {"sites": self._sql.id_list(site_ids)})
        return {row.site_id: row.last_seen_at for row in rows}

    def _rows(self, connection: Connection, site_ids: Collection[int]) -> dict[int, SiteReads]:
        """Returns what is kept of the sites' reads; no other report changes it before the commit."""
        if not site_ids:
            return {}
        insert = self._sql.insert_for(site_reads).on_conflict_do_nothing()
        connection.execute(insert, [{"site_id": id_} for id_ in sorted(site_ids)])
        statement = select(site_reads).where(self._sql.in_list(site_reads.c.site_id, "sites"))
        statement = statement.order_by(site_reads.c.site_id).with_for_update()
        rows = connection.execute(statement, {"sites": self._sql.id_list(site_ids)})
        return {row.site_id: _site_reads(row) for row in rows}

    def _changes(
        self, connection: Connection, sites: Mapping[int, SiteReads], reads: Mapping[int, Sequence[Read]]
    ) -> dict[int, list[PublishedChange]]:
        """Returns the changes that `take_reads` needs, by site id, in order.

        Of each site: the newest that was read and the one after it; the last that was detected before the report's
        oldest read; all that were detected later, which alone may be dated before a read.
        """
        oldest = min((read.at for some in reads.values() for read in some), default=0.0)
        opened = {site.open.id: site.open.published_at for site in sites.values() if site.open is not None}
        parameters = {"sites": self._sql.id_list(sites), "oldest": oldest}
        rows = {row.id: row for row in self._edges(connection, parameters)}
        rows |= {row.id: row for row in connection.execute(self._later(), parameters)}
        if len(rows) > MAX_CHANGES:
            raise InvalidValueError(
                "reads",
                _("of at most {max_changes:,} changes of their sites", max_changes=MAX_CHANGES),
                f"{len(rows):,}",
            )
        changes: defaultdict[int, list[PublishedChange]] = defaultdict(list)
        for id_ in sorted(rows):
            row = rows[id_]
            known, detected = changes[row.site_id], row.detected_at
            before = min(detected if row.previous_poll_at is None else row.previous_poll_at, detected)
            polled = detected if row.poll_at is None else row.poll_at
            dated = None if row.age is None else min(max(polled - row.age, before), detected)
            earliest = known[-1].published_at if known else -math.inf
            begun = opened.get(id_, max(detected if dated is None else dated, earliest))
            known.append(PublishedChange(id_, begun, before if dated is None else dated))
        return changes

    def _edges(self, connection: Connection, parameters: Mapping[str, Any]) -> Sequence[Any]:
        """Returns the last change before `oldest` of each site, the newest that was read, and the first after that."""
        near, r = change.c, site_reads.c
        of_site = (near.site_id == r.site_id) & near.matters
        last = select(near.id).where(of_site, near.detected_at <= bindparam("oldest")).order_by(near.id.desc())
        following = select(near.id).where(of_site, near.id > r.newest_id).order_by(near.id)
        chosen = [query.limit(1).correlate(site_reads).scalar_subquery() for query in (last, following)]
        rows = connection.execute(select(*chosen, r.newest_id).where(self._sql.in_list(r.site_id, "sites")), parameters)
        ids = {id_ for row in rows for id_ in row if id_ is not None}
        statement = select(*(near[name] for name in _OF_CHANGE), literal(None).label("age"))
        return connection.execute(
            statement.where(self._sql.in_list(near.id, "ids")), {"ids": self._sql.id_list(ids)}
        ).all()

    def _later(self) -> Select[Any]:
        """Selects the changes detected after `oldest`, with the age at which their polls dated them."""
        c = change.c
        # SQLite looks for the poll by its time: else among all of its site. PostgreSQL has no index of times, and is to
        # look among those of the sites, not among all since then.
        of_site = poll.c.site_id + 0 == c.site_id
        if not self._sql.is_sqlite:
            of_site = (poll.c.site_id == c.site_id) & self._sql.in_list(poll.c.site_id, "sites")
        since = bindparam("oldest", type_=Double) - literal_column(str(_LONGEST_POLL_SECONDS))
        same = of_site & (poll.c.at == func.coalesce(c.poll_at, c.detected_at)) & (poll.c.at > since)
        statement = select(*(c[name] for name in _OF_CHANGE), poll.c.age)
        statement = statement.outerjoin_from(change, poll, same)
        statement = statement.where(
            self._sql.in_list(c.site_id, "sites"), c.detected_at > bindparam("oldest"), c.matters
        )
        return statement.limit(MAX_CHANGES + 1)

    def _learn(
        self,
        connection: Connection,
        sites: Mapping[int, SiteReads],
        report: ReadReport,
        rules: ReadRules,
        host_of: Mapping[int, int],
    ) -> dict[int, float]:
        """Stores what is kept of the sites, and learned; returns the half-lives that moved noticeably."""
        if not sites:
            return {}
        evidence = {id_: rules.evidence(stored_reads) for id_, stored_reads in sites.items()}
        self._update(connection, [_row(id_, stored_reads, evidence[id_]) for id_, stored_reads in sites.items()])
        of_host = self._of_hosts(connection, set(host_of.values()))
        learned: dict[int, HalfLife] = {}
        for id_, stored_reads in sites.items():
            others = of_host.get(host_of[id_], NO_EVIDENCE).without(evidence[id_])
            learned[id_] = rules.estimate(stored_reads, report.given.get(id_), others)
        self._update(
            connection,
            [
                {
                    "of_site": id_,
                    "half_life": half_life.value,
                    "half_life_low": half_life.low,
                    "half_life_high": half_life.high,
                }
                for id_, half_life in learned.items()
            ],
        )
        return self._put_in_force(connection, {id_: half_life.value for id_, half_life in learned.items()}, rules)

    def _put_in_force(self, connection: Connection, learned: Mapping[int, float], rules: ReadRules) -> dict[int, float]:
        c = interest.c
        statement = select(c.site_id, c.learned_half_life).where(self._sql.in_list(c.site_id, "sites"))
        rows = connection.execute(statement, {"sites": self._sql.id_list(learned)})
        before = {row.site_id: row.learned_half_life for row in rows}
        moved = {id_: value for id_, value in learned.items() if rules.moved(before.get(id_), value)}
        if moved:
            insert = self._sql.insert_for(interest)
            new = {"learned_half_life": insert.excluded.learned_half_life}
            put = insert.on_conflict_do_update(index_elements=["site_id"], set_=new)
            connection.execute(put, [{"site_id": id_, "learned_half_life": moved[id_]} for id_ in sorted(moved)])
        return moved

    def _of_hosts(self, connection: Connection, host_ids: Collection[int]) -> dict[int, HostEvidence]:
        """Returns the evidence of all sites of each host, by its id."""
        r = site_reads.c
        statement = select(site.c.host_id, func.sum(r.precision), func.sum(r.weighted))
        statement = statement.join_from(site_reads, site, site.c.id == r.site_id).group_by(site.c.host_id)
        rows = connection.execute(
            statement.where(self._sql.in_list(site.c.host_id, "hosts")), {"hosts": self._sql.id_list(host_ids)}
        )
        return {host: HostEvidence(float(precision), float(weighted)) for host, precision, weighted in rows}

    @staticmethod
    def _update(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
        values: dict[str, Any] = {name: bindparam(name) for name in rows[0] if name != "of_site"}
        connection.execute(update(site_reads).where(site_reads.c.site_id == bindparam("of_site")).values(values), rows)


def _site_reads(row: Any) -> SiteReads:
    """Returns what a row keeps; what cannot be read begins anew, which is logged."""
    statistics, open_ = ReadStatistics(), None
    if row.statistics is not None:
        try:
            statistics = ReadStatistics.from_bytes(bytes(row.statistics))
        except InvalidValueError as error:
            _log_dropped(row.site_id, "statistics", error)
    if row.open_change is not None:
        try:
            open_ = msgspec.json.decode(row.open_change, type=OpenChange)
        except msgspec.MsgspecError as error:
            _log_dropped(row.site_id, "open_change", error)
    return SiteReads(statistics, open_, row.reads, row.changes, row.newest_id, row.last_read_at)


def _log_dropped(site_id: int, column: str, error: Exception) -> None:
    log = structlog.get_logger("pollerd.storage")
    log.warning("reads_unusable", site_id=site_id, column=column, reason=str(error), effect="counting starts again")


def _row(site_id: int, stored_reads: SiteReads, evidence: HostEvidence) -> dict[str, Any]:
    return {
        "of_site": site_id,
        "reads": stored_reads.reads,
        "changes": stored_reads.changes,
        "newest_id": stored_reads.newest,
        "last_read_at": stored_reads.last_read_at,
        "open_change": None if stored_reads.open is None else msgspec.json.encode(stored_reads.open).decode(),
        "statistics": stored_reads.statistics.to_bytes(),
        "precision": evidence.precision,
        "weighted": evidence.weighted,
    }


def _parts(counts: ReadCounts, unknown_sites: int) -> tuple[int, ...]:
    """Returns what became of a report, in the order of `_PARTS`."""
    return counts.taken, unknown_sites, counts.before_changes, counts.other_changes, counts.between_polls
