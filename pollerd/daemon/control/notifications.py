"""Control of the running daemon's rules and channels."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson
import structlog

from pollerd.daemon.notifier import Notifier
from pollerd.daemon.runtime import Runtime
from pollerd.errors import InvalidValueError, NotFoundError, TooHeavyError, refusal
from pollerd.events import EventKind, NoticeState
from pollerd.masking import masked
from pollerd.notifications.settings import NotificationSettings
from pollerd.storage.notification_values import (
    AttemptEnd,
    ChannelSpec,
    FileResult,
    Origin,
    RuleSpec,
    StoredChannel,
    StoredRule,
)
from pollerd.storage.notifications import NotificationStore
from pollerd.texts import N_, _

if TYPE_CHECKING:  # a daemon without rules loads none of it
    from pollerd.notifications.message import Receipt


_FOR_GOOD = 253_402_300_000.0
"""Nearly the end of the year 9999."""


class NotificationControl:
    """Changes rules and channels: first in the database, then in the live loop."""

    def __init__(
        self, *, store: NotificationStore, notifier: Notifier, settings: NotificationSettings, runtime: Runtime
    ) -> None:
        self._store, self._notifier, self._clock = store, notifier, runtime.clock
        self._settings = settings
        self._templates = runtime.templates
        self._log = structlog.get_logger("pollerd.notifications")

    # Rules.

    async def add_rule(self, document: Mapping[str, Any]) -> StoredRule:
        """Adds a rule. Raises InvalidValueError, and DuplicateError with the existing id."""
        from pollerd.notifications.specs import rule_spec

        stored = await self._store.rules.add(rule_spec(document), self._clock())
        await self._notifier.reload()
        return stored

    async def change_rule(self, rule_id: int, document: Mapping[str, Any]) -> StoredRule:
        """Sets all settings of a rule; it stays muted. Raises NotFoundError, InvalidValueError, DuplicateError."""
        from pollerd.notifications.specs import rule_spec

        _check_origin("rule", (await self._store.rules.get(rule_id)).spec)
        stored = await self._store.rules.update(rule_id, rule_spec(document), self._clock())
        await self._notifier.reload()
        return stored

    async def mute_rule(self, rule_id: int, until: float | None) -> StoredRule:
        """Mutes a rule until that time (epoch s); None: no longer. Raises NotFoundError."""
        stored = await self._store.rules.mute(rule_id, until)
        await self._notifier.reload()
        return stored

    async def check_unsubscribing(self, channel_id: int, rule_id: int, token: str) -> None:
        """Raises NotFoundError unless the token is that of a link in a mail of this channel, by this rule."""
        from pollerd.notifications.composing import purpose_of

        if not self._store.channels.is_token_of(purpose_of(channel_id, rule_id), token):
            raise NotFoundError(N_("link to unsubscribe"), rule_id)

    async def unsubscribe(self, channel_id: int, rule_id: int, token: str) -> None:
        """Takes the channel out of the rule; a rule without another, or of a file, is muted for good.

        Raises NotFoundError for a link that is none.
        """
        await self.check_unsubscribing(channel_id, rule_id, token)
        rule, name = await self._store.rules.get(rule_id), (await self._store.channels.get(channel_id)).spec.name
        document = orjson.loads(rule.spec.settings)
        others = [channel for channel in document["channels"] if channel != name]
        if others and rule.spec.origin is Origin.API:
            spec = dataclasses.replace(rule.spec, settings=orjson.dumps({**document, "channels": others}).decode())
            await self._store.rules.update(rule_id, spec, self._clock())
        else:
            await self._store.rules.mute(rule_id, _FOR_GOOD)
        self._log.info("unsubscribed", rule=rule.spec.name, channel=name)
        await self._notifier.reload()

    async def delete_rule(self, rule_id: int) -> None:
        """Deletes a rule; its queued messages are still sent. Raises NotFoundError."""
        _check_origin("rule", (await self._store.rules.get(rule_id)).spec)
        await self._store.rules.delete(rule_id, self._clock())
        await self._notifier.reload()

    # Where messages lead.

    @property
    def public_url(self) -> str:
        """Where messages say that users reach this daemon, without a slash at its end; empty: they have no links."""
        return self._settings.base_url

    async def link_to(self, public_url: str, *, by: str) -> None:
        """Has messages link to the pages at this URL, until the process ends. Raises InvalidValueError."""
        self._settings.link_to(public_url)
        await self._notifier.begin_anew()
        self._log.info("public_url_set", url=self.public_url, by=by)

    # Channels.

    async def add_channel(
        self, name: str, kind: str, settings: Mapping[str, Any], *, enabled: bool = True
    ) -> StoredChannel:
        """Adds a channel from its settings and secrets. Raises InvalidValueError, DuplicateError."""
        from pollerd.notifications.specs import checked_name
        from pollerd.notifications.stored_channels import with_settings

        spec = with_settings(ChannelSpec(checked_name(name), kind, enabled=enabled), settings)
        await self._check_template(spec)
        stored = await self._store.channels.add(spec, self._clock())
        await self._notifier.reload()
        return stored

    async def change_channel(
        self,
        channel_id: int,
        settings: Mapping[str, Any] | None,
        *,
        name: str | None = None,
        enabled: bool | None = None,
    ) -> StoredChannel:
        """Sets all settings of a channel, and ends its pause; None: they stay.

        Secrets that are not given stay, unless its address changes.

        Raises NotFoundError, InvalidValueError, DuplicateError.
        """
        from pollerd.notifications.specs import checked_name
        from pollerd.notifications.stored_channels import with_settings

        before = await self._store.channels.get(channel_id)
        _check_origin("channel", before.spec)
        spec = dataclasses.replace(
            before.spec,
            name=before.spec.name if name is None else checked_name(name),
            enabled=before.spec.enabled if enabled is None else enabled,
        )
        if settings is not None:
            spec = with_settings(spec, settings, before.spec)
            await self._check_template(spec)
        stored = await self._store.channels.update(channel_id, spec, self._clock())
        await self._store.channels.resume(channel_id, self._clock())
        await self._notifier.reload()
        return stored

    async def delete_channel(self, channel_id: int, *, from_rules: bool = False) -> None:
        """Deletes a channel, with what waits for it; from_rules: also where rules name it.

        Raises NotFoundError, and InvalidValueError while rules name it.
        """
        _check_origin("channel", (await self._store.channels.get(channel_id)).spec)
        await self._store.channels.delete(channel_id, self._clock(), from_rules=from_rules)
        await self._notifier.reload()

    async def undelete(self, copy_id: int) -> None:
        """Brings back a rule or channel that was deleted within the last day.

        Raises NotFoundError if there is none, DuplicateError if its name is taken by now, and InvalidValueError for a
        rule one of whose channels is missing.
        """
        try:
            await self._store.rules.undelete(copy_id, self._clock())
        except NotFoundError:
            await self._store.channels.undelete(copy_id, self._clock())
        await self._notifier.reload()

    async def put_from_file(self, channels: Sequence[ChannelSpec], rules: Sequence[RuleSpec]) -> FileResult:
        """Makes the channels and rules of the configuration file these; those of the API stay.

        Raises InvalidValueError.
        """
        await self._check_templates(channels)
        result = await self._store.rules.put_from_file(channels, rules, self._clock())
        await self._notifier.reload()
        return result

    async def restore(self, channels: Sequence[ChannelSpec], rules: Mapping[RuleSpec, float | None]) -> FileResult:
        """Adds or changes channels and rules of an export, all or none; rules: until when each is muted.

        Raises InvalidValueError.
        """
        await self._check_templates(channels)
        result = await self._store.rules.restore(channels, rules, self._clock())
        await self._notifier.reload()
        return result

    async def _check_templates(self, channels: Sequence[ChannelSpec]) -> None:
        for spec in channels:
            await self._check_template(spec, f"channel {spec.name}: ")

    async def _check_template(self, spec: ChannelSpec, of: str = "") -> None:
        """Raises InvalidValueError if the channel's template can never be rendered, or takes too long to be checked."""
        from pollerd.notifications.stored_channels import opened
        from pollerd.notifications.templates import TemplateError, check

        template = opened(spec).options.template
        if not template:
            return
        try:
            await self._templates.do(check, template)
        except (TemplateError, TooHeavyError) as error:
            raise InvalidValueError(
                f"{of}delivery.template", _("a Jinja2 template ({error})", error=error), "(not shown)"
            ) from error

    async def rotate_secret(self, channel_id: int, overlap: float) -> StoredChannel:
        """Gives a webhook a new secret; for `overlap` seconds messages are signed with both.

        Raises NotFoundError, and InvalidValueError for a channel of another kind.
        """
        from pollerd.notifications.stored_channels import with_new_secret

        before = await self._store.channels.get(channel_id)
        _check_origin("channel", before.spec)
        now = self._clock()
        stored = await self._store.channels.update(channel_id, with_new_secret(before.spec, until=now + overlap), now)
        await self._notifier.reload()
        return stored

    async def try_channel(self, channel_id: int) -> Receipt:
        """Sends a test message on the channel, at once; returns the answer. The channel and the delivery log show it.

        Raises NotFoundError.
        """
        from pollerd.daemon.rules_in_force import new_event_id
        from pollerd.notifications.message import AnswerKind, Event
        from pollerd.notifications.stored_channels import look_of, opened
        from pollerd.notifications.writing import message_of_one

        row = await self._store.channels.get(channel_id)
        began = self._clock()
        event = Event(new_event_id(), EventKind.TEST, began, data={"channel": row.spec.name})
        answer = await self._notifier.try_out(row, message_of_one(event, look_of(opened(row.spec), "")))
        now = self._clock()
        end = AttemptEnd(
            state=NoticeState.SENT if answer.kind is AnswerKind.SENT else NoticeState.DEAD,  # it is not tried again
            outcome=answer.kind.value,
            status=answer.status,
            detail=answer.detail,
            duration=max(now - began, 0.0),
        )
        await self._store.outbox.log_attempt(channel_id, event.id, now, end)
        return answer

    async def resend(self, *, ids: Sequence[int] | None = None, channel_id: int | None = None) -> int:
        """Makes dead notices wait anew: those of these ids, or all of a channel. Returns how many."""
        count = await self._store.outbox.resend(self._clock(), notice_ids=ids, channel_id=channel_id)
        if count:
            await self._notifier.reload()
        return count

    def shown(self, row: StoredChannel) -> dict[str, Any]:
        """Returns the settings of a channel without secrets; of one that cannot be used, why."""
        from pollerd.notifications.stored_channels import shown

        try:
            return shown(row.spec)
        except InvalidValueError as error:
            return {"fault": str(error)}

    def not_fenced(self, row: StoredChannel) -> str | None:
        """Returns why the kernel does not hold the plugins of an Apprise channel; None: it does, or there are none."""
        from pollerd.notifications.channels.apprise import APPRISE
        from pollerd.notifications.channels.apprise_fence import missing

        return missing() if row.spec.kind == APPRISE else None

    def signing_secret(self, row: StoredChannel) -> str | None:
        """Returns the secret by which a webhook signs, for its one showing; None: it is none."""
        secrets: dict[str, str] = orjson.loads(row.spec.secrets) if row.spec.secrets else {}
        return secrets.get("secret") if row.spec.kind == "webhook" else None


def _check_origin(what: str, spec: ChannelSpec | RuleSpec) -> None:
    if spec.origin is Origin.FILE:
        raise refusal(what, _("{spec!r} is defined in the configuration file: change it there", spec=masked(spec.name)))
