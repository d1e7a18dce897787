"""The announcer, which applies the rules to each batch. Without rules it loads and does nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pollerd.daemon.runtime import Runtime
from pollerd.daemon.stages import Found
from pollerd.events import Incident
from pollerd.inheritance import inherit
from pollerd.model import (
    ChangeVerdict,
    Site,
    SiteState,
)
from pollerd.storage.contents import ContentStore
from pollerd.storage.sites import SiteStore
from pollerd.storage.values import PollRecord
from pollerd.texts import _

if TYPE_CHECKING:
    from pollerd.daemon.announcing import AnnounceStep, Lines
    from pollerd.daemon.rules_in_force import RulesInForce
    from pollerd.notifications.rules import Rule


def _target(record: PollRecord) -> str:
    """Returns where the page of a change that matters has moved for good; empty: nowhere."""
    matters = record.change is not None and record.change.verdict.matters
    return (record.context.redirect_url or "") if matters else ""


class Announcer:
    """Holds the rules in force, and the step that asks them."""

    def __init__(self, *, sites: SiteStore, contents: ContentStore, filled: asyncio.Event, runtime: Runtime) -> None:
        """`filled`: set when committed notices wait to be sent."""
        self._sites, self._contents, self._filled, self._runtime = sites, contents, filled, runtime
        self._step: AnnounceStep | None = None
        self._rules: RulesInForce | None = None
        self.active = False
        """Whether there ever was a rule."""

    @property
    def rules(self) -> RulesInForce | None:
        """The rules in force; None: there never was one."""
        return self._rules

    def put_in_force(self, rules: Sequence[Rule], channels: Mapping[str, int]) -> None:
        """Replaces all rules; `channels`: ids by name. Raises InvalidValueError."""
        if self._rules is None:
            if not rules:
                return
            from pollerd.daemon.announcing import AnnounceStep
            from pollerd.daemon.rules_in_force import RulesInForce

            self._rules, self.active = RulesInForce(), True
            self._step = AnnounceStep(
                rules=self._rules, sites=self._sites, contents=self._contents, runtime=self._runtime
            )
        self._rules.replace(rules, channels)
        self._sites.tags.of_rules = self._rules.tags

    def restore(self, incidents: Sequence[Incident], digests: Iterable[str]) -> None:
        """Takes over what is stored: open incidents, and keys of digests that went out of late."""
        if self._rules is not None:
            self._rules.opened(incidents)
            self._rules.close_digests(digests)

    def close_digests(self, keys: Iterable[str]) -> None:
        """Lets these digests take nothing more in: they went out."""
        if self._rules is not None:
            self._rules.close_digests(keys)

    @property
    def wants_lines(self) -> bool:
        """Whether a rule asks for the lines of changes."""
        return self._rules is not None and bool(self._rules) and self._rules.wants_lines

    async def lines_of(self, results: Sequence[Found]) -> tuple[Lines | None, frozenset[int]]:
        """Returns the lines of the changes, and the ids of sites whose results leave the batch for theirs.

        Only if `wants_lines`. Raises DatabaseUnavailableError.
        """
        assert self._step is not None
        return await self._step.lines_of(results)

    async def announce(
        self, results: Sequence[Found], records: tuple[PollRecord, ...], lines: Lines | None
    ) -> tuple[PollRecord, ...]:
        """Returns the records with their notices. `lines`: of their changes. Raises DatabaseUnavailableError."""
        records = await self._once(records)
        if self._step is None or not self._rules:
            return records
        return await self._step.announce(results, records, lines or {})

    async def _once(self, records: tuple[PollRecord, ...]) -> tuple[PollRecord, ...]:
        """Returns the records; a change that a site found where another one sees it, too, does not matter.

        Of the sites that are at one URL, or redirect there permanently, the first reports its changes.
        """
        moved = [record for record in records if _target(record)]
        if not moved:
            return records
        targets = sorted({_target(record) for record in moved})
        at = await self._sites.at([*targets, *(record.context.url for record in moved)])
        redirecting = await self._sites.redirecting_to(targets)
        others = {site.id: site for site in await self._sites.get_many(sorted({*chain(*redirecting.values())}))}
        out = []
        for record in records:
            target, own = _target(record), at.get(record.context.url)
            earlier = [id_ for id_ in redirecting.get(target, ()) if id_ < record.poll.site_id]
            candidates = [at.get(target), *map(others.get, earlier)]
            reporter = next(
                (candidate for candidate in candidates if own and candidate and self._reports_for(candidate, own)), None
            )
            if reporter is not None and record.change is not None:
                why = _(
                    "the same page as {url}, by a permanent redirect: its change is reported there",
                    url=reporter.spec.url,
                )
                record = replace(record, change=replace(record.change, verdict=ChangeVerdict(matters=False, why=why)))
            out.append(record)
        return tuple(out)

    def _reports_for(self, site: Site, other: Site) -> bool:
        """Returns whether what rules and readers see of a site's changes is seen of the other's as well."""
        spec = inherit(site.spec, self._sites.tags.in_force)
        same = site.id != other.id and site.state is SiteState.ACTIVE and not spec.selections and not spec.render
        return same and set(other.spec.tags) <= set(site.spec.tags)

    def apply_committed(self, records: Sequence[PollRecord]) -> None:
        """Follows what was committed."""
        if self._rules is None:
            return
        told = False
        for record in records:
            told = told or bool(record.notices)
            if record.incidents_opened:
                self._rules.opened(record.incidents_opened)
            if record.incidents_closed:
                self._rules.closed(record.poll.site_id, record.incidents_closed)
        if told:
            self._filled.set()

    def forget(self, site_id: int) -> None:
        """Drops what is known of a site that was removed."""
        if self._rules is not None:
            self._rules.forget(site_id)
