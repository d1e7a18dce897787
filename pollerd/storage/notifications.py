"""The store of channels, rules, the outbox and the delivery log: each method is one transaction."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from sqlalchemy import Connection, select

from pollerd.errors import InvalidValueError
from pollerd.events import EventKind, Incident, Notice
from pollerd.storage import delivery_log, outbox
from pollerd.storage import rules as stored_rules
from pollerd.storage.commit import notice_row
from pollerd.storage.contents import ContentStore
from pollerd.storage.delivery_log import FactRows, facts_of, read_facts
from pollerd.storage.encoding import Order
from pollerd.storage.encryption import Encryption
from pollerd.storage.engine import Database
from pollerd.storage.notification_values import (
    Attempt,
    AttemptEnd,
    ChannelSpec,
    ClaimedMessage,
    DueTimes,
    FileResult,
    NewMessages,
    NoticeFacts,
    NoticeFilter,
    QueueCounts,
    RuleSpec,
    StoredChannel,
    StoredNotice,
    StoredRule,
)
from pollerd.storage.outbox import OutboxStatements
from pollerd.storage.rules import Channels
from pollerd.storage.schema import site
from pollerd.storage.statements import Statements, run, run_each
from pollerd.storage.values import ListPage

ALL_NOTICES = NoticeFilter()
EXPIRED = "not sent within the time that the outbox keeps it"


class NotificationStore:
    """Who is told of what, what is still to be told, and what became of it.

    Every method raises `DatabaseUnavailableError` as those of `Store` do.
    """

    def __init__(self, *, database: Database, sql: Statements, encryption: Encryption, contents: ContentStore) -> None:
        self._database, self._sql, self._contents = database, sql, contents
        self._outbox, self._channels, self._encryption = OutboxStatements(sql), Channels(encryption), encryption

    def token_of(self, purpose: str) -> str:
        """Returns a token for links in messages; empty: PostgreSQL keeps no secrets without a key."""
        try:
            return self._encryption.token_of(purpose)
        except InvalidValueError:
            return ""

    def is_token_of(self, purpose: str, token: str) -> bool:
        """Returns whether a link's token was made here for this purpose."""
        return self._encryption.is_token_of(purpose, token)

    # Channels.

    async def channels(self) -> list[StoredChannel]:
        """Returns all channels with their secrets, by id."""
        return await self._database.read(self._channels.all)

    async def channel(self, channel_id: int) -> StoredChannel:
        """Returns the channel with its secrets. Raises `NotFoundError`."""
        return await self._database.read(lambda c: self._channels.get(c, channel_id))

    async def add_channel(self, spec: ChannelSpec, now: float) -> StoredChannel:
        """Adds a channel. Raises `DuplicateError`, and `InvalidValueError` if there is no key for its secrets."""
        return await self._database.write(lambda c: self._channels.add(c, spec, now))

    async def update_channel(self, channel_id: int, spec: ChannelSpec, now: float) -> StoredChannel:
        """Sets what a channel is, secrets included; rules follow another name.

        A pause ends if kind, settings or secrets changed. Raises as `add_channel` does, and `NotFoundError`.
        """
        return await self._database.write(lambda c: self._channels.update(c, channel_id, spec, now))

    async def delete_channel(self, channel_id: int, now: float, *, from_rules: bool = False) -> None:
        """Deletes a channel; what it had still to tell is dead.

        from_rules: take it out of the rules that name it; else `InvalidValueError` names them. Raises `NotFoundError`.
        """
        await self._database.write(lambda c: self._channels.delete(c, channel_id, now, from_rules=from_rules))

    async def resume_channel(self, channel_id: int, now: float) -> StoredChannel:
        """Ends a pause; what waits for its next attempt is due now. Raises `NotFoundError`."""

        def write(c: Connection) -> StoredChannel:
            outbox.hurry(c, channel_id, now)
            return self._channels.pause(c, channel_id, None, now)

        return await self._database.write(write)

    # Rules.

    async def rules(self) -> list[StoredRule]:
        """Returns all rules, by id."""
        return await self._database.read(stored_rules.all_rules)

    async def rule(self, rule_id: int) -> StoredRule:
        """Returns the rule. Raises `NotFoundError`."""
        return await self._database.read(lambda c: stored_rules.get_rule(c, rule_id))

    async def find_rule(self, name: str) -> StoredRule | None:
        """Returns the rule of this name."""
        return await self._database.read(lambda c: stored_rules.find_rule(c, name))

    async def add_rule(self, spec: RuleSpec, now: float) -> StoredRule:
        """Adds a rule. Raises `DuplicateError`, and `InvalidValueError` if it names a channel that there is not."""
        return await self._database.write(lambda c: stored_rules.add_rule(c, spec, now))

    async def update_rule(self, rule_id: int, spec: RuleSpec, now: float) -> StoredRule:
        """Sets what a rule is; it stays muted. Raises as `add_rule` does, and `NotFoundError`."""
        return await self._database.write(lambda c: stored_rules.update_rule(c, rule_id, spec, now))

    async def mute_rule(self, rule_id: int, until: float | None) -> StoredRule:
        """Mutes a rule until that time; None: no longer. Raises `NotFoundError`."""
        return await self._database.write(lambda c: stored_rules.mute_rule(c, rule_id, until))

    async def delete_rule(self, rule_id: int) -> None:
        """Deletes a rule and its incidents; what it had still to tell is told. Raises `NotFoundError`."""
        await self._database.write(lambda c: stored_rules.delete_rule(c, rule_id))

    async def put_from_file(self, channels: Sequence[ChannelSpec], rules: Sequence[RuleSpec], now: float) -> FileResult:
        """Makes the configuration file's channels and rules these: known names keep their ids, others are removed.

        Those of the API stay as they are. Raises `InvalidValueError`, and writes nothing, for a name that one of them
        has, for unknown channels, and if a channel that is to be removed is named by a rule of the API.
        """
        return await self._database.write(lambda c: stored_rules.put_from_file(c, self._channels, channels, rules, now))

    async def restore(
        self, channels: Sequence[ChannelSpec], rules: Mapping[RuleSpec, float | None], now: float
    ) -> FileResult:
        """Adds or changes channels and rules of an export, all or none; rules: until when each is muted.

        Raises `InvalidValueError`.
        """
        return await self._database.write(lambda c: stored_rules.restore(c, self._channels, channels, rules, now))

    async def incidents(self) -> list[Incident]:
        """Returns the open incidents of all rules."""
        return await self._database.read(stored_rules.incidents)

    # The outbox.

    async def digests_sent(self, since: float) -> list[str]:
        """Returns the keys of digests that were sent since then, or are being sent, in the order of their notices."""
        return await self._database.read(lambda c: outbox.digests_sent(c, since))

    async def put(self, notices: Sequence[Notice], incidents: Sequence[Incident] = ()) -> None:
        """Writes notices of events that no poll is the cause of; those that a channel was given before are left out.

        incidents: opened with them.
        """

        def work(connection: Connection) -> None:
            ids = {one.site_id for one in notices if one.site_id is not None}
            wanted = select(site.c.id, site.c.url).where(self._sql.in_list(site.c.id, "ids"))
            found = connection.execute(wanted, {"ids": self._sql.id_list(ids)}) if ids else ()
            urls: dict[int | None, str] = dict(map(tuple, found))
            rows = [notice_row(one, urls.get(one.site_id)) for one in notices]
            self._sql.locks.number_events(connection)
            run_each(connection, self._sql.insert_notice, rows)
            opened = [(one.rule_id, one.site_id, one.id, one.since) for one in incidents]
            run_each(connection, self._sql.open_incident, opened)

        await self._database.write(work)

    async def claim(
        self,
        channel_id: int,
        now: float,
        *,
        limit: int = 1000,
        group_from: int | None = None,
        begins: NewMessages = NewMessages.ALL,
    ) -> ClaimedMessage | None:
        """Returns what the channel sends now as one message; None: nothing is due, or may be begun.

        Its id and members are stored before this returns, so that each later attempt sends the same. In this order: a
        message that is to be tried again; what is due of one digest; if `group_from` (1 or more) or more notices are
        due, these as a group, `limit` at most; the oldest that is due. Messages of first sights alone come last, in the
        same order; that of a site goes before its first change, or with it. Notices of one site and outside of digests
        go in the order of their ids: one waits while an earlier one is open that is not in the same message. Whether
        the channel is paused is not looked at.
        """
        _check_limit(limit)
        chosen = _Choice(channel_id, now, limit, group_from, begins)
        return await _with_facts(*await self._database.write(lambda c: self._claim(c, chosen)))

    def _claim(self, connection: Connection, chosen: _Choice) -> tuple[ClaimedMessage | None, FactRows | None]:
        """Returns a message, and the facts of a single notice: those of many are not read while commits wait."""
        claim = outbox.claim(connection, self._outbox, *chosen)
        if claim is None or len(claim.notices) > 1:
            return claim, None
        return claim, read_facts(connection, self._sql, self._outbox, self._contents, claim.notices, 1)

    async def part(self, claimed: ClaimedMessage, first: int) -> ClaimedMessage:
        """Returns a message of the first notices of a claimed one that was never tried; the others are due as before.

        first: 1 to one less than it has. Raises `InvalidValueError`.
        """
        if not 1 <= first < len(claimed.notices) or claimed.attempts:
            raise InvalidValueError("first", f"1 to {len(claimed.notices) - 1}, of a message never tried", first)
        return await self._database.write(lambda c: outbox.part(c, self._outbox, claimed, first))

    async def sent_since(self, channel_id: int, since: float) -> list[tuple[float, int, bool]]:
        """Returns the messages sent on a channel since then, oldest first: (epoch s, number of events, whether of first
        sights alone).
        """
        found = await self._database.read(lambda c: run(c, self._outbox.sent_since, channel_id, since))
        return [(at, events, bool(first_seen)) for at, events, first_seen in found]

    async def last_notice(self, kind: EventKind) -> StoredNotice | None:
        """Returns the last notice of this kind, of any channel; None: there is none, or its time to be kept is over."""
        return await self._database.read(lambda c: delivery_log.last_notice(c, kind))

    async def ended(
        self, channel_id: int, message_id: str, now: float, end: AttemptEnd, notices: Sequence[Notice] = ()
    ) -> int:
        """Notes how the attempt to send a claimed message ended, with its row in the log and what follows for the
        channel.

        notices: written in the same transaction, for example that the channel is down. Returns how many notices of the
        message it concerned. Raises `InvalidValueError`.
        """
        outbox.check_end(end)
        return await self._database.write(lambda c: self._end(c, channel_id, message_id, now, end, notices))

    async def end_and_claim(
        self,
        claimed: ClaimedMessage,
        now: float,
        end: AttemptEnd,
        notices: Sequence[Notice] = (),
        *,
        limit: int = 1000,
        group_from: int | None = None,
        begins: NewMessages = NewMessages.ALL,
    ) -> ClaimedMessage | None:
        """Notes the end of an attempt as `ended` does, and returns what the channel sends next as `claim` does, both in
        one transaction.
        """
        outbox.check_end(end)
        _check_limit(limit)
        chosen = _Choice(claimed.channel_id, now, limit, group_from, begins)

        def work(connection: Connection) -> tuple[ClaimedMessage | None, FactRows | None]:
            self._end(connection, claimed.channel_id, claimed.message_id, now, end, notices)
            return self._claim(connection, chosen)

        return await _with_facts(*await self._database.write(work))

    def _end(
        self,
        connection: Connection,
        channel_id: int,
        message_id: str,
        now: float,
        end: AttemptEnd,
        notices: Sequence[Notice],
    ) -> int:
        if notices:
            self._sql.locks.number_events(connection)
        events = outbox.ended(connection, self._outbox, channel_id, message_id, now, end)
        run_each(connection, self._sql.insert_notice, [notice_row(one) for one in notices])
        return events

    async def log_attempt(self, channel_id: int, message_id: str, now: float, end: AttemptEnd) -> None:
        """Notes an attempt that concerns no notice: a user tries a channel."""
        await self._database.write(lambda c: outbox.log(c, self._outbox, channel_id, message_id, now, 1, end))

    async def release(self, channel_id: int | None = None) -> int:
        """Makes what an earlier run was sending wait for the next attempt, as the same messages.

        To be called at a start, before anything is claimed; channel_id: of a channel whose sending was broken off.
        Returns the number of notices.
        """
        return await self._database.write(lambda c: outbox.release(c, channel_id))

    async def next_due(self, channel_id: int | None = None) -> dict[int, DueTimes]:
        """Returns when each channel, or this one, has something to send; it may be past.

        Channels that have nothing, or whose messages are all being sent, are missing.
        """
        return await self._database.read(lambda c: outbox.next_claim(c, self._outbox, channel_id))

    async def resend(
        self, now: float, *, notice_ids: Sequence[int] | None = None, channel_id: int | None = None
    ) -> int:
        """Makes dead notices wait anew: those with these ids, of this channel, or both; returns how many.

        Raises `InvalidValueError` if neither is given.
        """
        if notice_ids is None and channel_id is None:
            raise InvalidValueError("notices", "ids, or a channel", None)
        return await self._database.write(lambda c: outbox.resend(c, self._sql, now, notice_ids, channel_id))

    async def expire(self, before: float, now: float) -> dict[int, int]:
        """Ends notices that wait since before that time as dead; returns their numbers by channel.

        Those being sent are left out. Runs in short transactions.
        """
        total: Counter[int] = Counter()
        while gone := await self._database.write(lambda c: outbox.expire(c, before, now, EXPIRED)):
            total.update(gone)
        return dict(total)

    async def counts(self) -> dict[int, QueueCounts]:
        """Returns what each channel has in the outbox; channels without any are missing."""
        return await self._database.read(outbox.counts)

    # Lists, and facts for messages.

    async def notice(self, notice_id: int) -> StoredNotice:
        """Returns the notice. Raises `NotFoundError`."""
        return await self._database.read(lambda c: delivery_log.get_notice(c, notice_id))

    async def list_notices(
        self,
        wanted: NoticeFilter = ALL_NOTICES,
        limit: int = 100,
        cursor: str | None = None,
        order: Order | None = None,
    ) -> ListPage[StoredNotice]:
        """Returns matching notices, newest first unless cursor or `order` say otherwise.

        With a `change_id`: to whom the change was told, and when. Raises `InvalidValueError` for a bad cursor, an order
        that differs from the cursor's, or a bad limit (1 to 1000).
        """
        return await self._database.read(lambda c: delivery_log.list_notices(c, wanted, limit, cursor, order))

    async def list_attempts(
        self,
        channel_id: int | None = None,
        message_id: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
        order: Order | None = None,
    ) -> ListPage[Attempt]:
        """Returns attempts of a channel, or of a message, or of all; order and errors as in `list_notices`."""
        return await self._database.read(
            lambda c: delivery_log.list_attempts(c, channel_id, message_id, limit, cursor, order)
        )

    async def facts(self, notices: Sequence[StoredNotice], contents_of: int = 100) -> list[NoticeFacts]:
        """Returns what a message may show of these, in their order, read in one transaction.

        contents_of: of how many, from the first on, the contents before and after the change are read.
        """
        rows = await self._database.read(
            lambda c: read_facts(c, self._sql, self._outbox, self._contents, notices, contents_of)
        )
        return await _unpacked(notices, rows)


class _Choice(NamedTuple):
    """Of what a channel's next message is chosen; as `outbox.claim` takes it."""

    channel_id: int
    now: float
    limit: int
    group_from: int | None
    begins: NewMessages


def _check_limit(limit: int) -> None:
    if limit < 1:
        raise InvalidValueError("limit", "at least 1", limit)


async def _with_facts(claim: ClaimedMessage | None, rows: FactRows | None) -> ClaimedMessage | None:
    """Returns the message with its facts, where they were read."""
    if claim is None or rows is None:
        return claim
    return replace(claim, facts=tuple(await _unpacked(claim.notices, rows)))


async def _unpacked(notices: Sequence[StoredNotice], rows: FactRows) -> list[NoticeFacts]:
    if not rows.contents:
        return facts_of(notices, rows)
    # Decompression releases the GIL: in a thread it does not block the loop.
    return await asyncio.to_thread(facts_of, notices, rows)
