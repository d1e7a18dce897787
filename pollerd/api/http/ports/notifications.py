"""Rules and channels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol

from pollerd.storage import ChannelSpec, FileResult, RuleSpec, StoredChannel, StoredRule


class ChannelAnswer(Protocol):
    """What came of a test message."""

    @property
    def kind(self) -> StrEnum:
        """How it ended."""

    @property
    def status(self) -> int | None:
        """HTTP or SMTP code."""

    @property
    def detail(self) -> str:
        """In words, without secrets."""


class NotificationsPort(Protocol):
    """Changes rules and channels. All raise InvalidValueError for what cannot be."""

    async def add_rule(self, document: Mapping[str, Any]) -> StoredRule:
        """Adds a rule. Raises DuplicateError with the existing id."""

    async def change_rule(self, rule_id: int, document: Mapping[str, Any]) -> StoredRule:
        """Sets all of a rule. Raises NotFoundError, DuplicateError."""

    async def mute_rule(self, rule_id: int, until: float | None) -> StoredRule:
        """Mutes a rule until that time. Raises NotFoundError."""

    async def delete_rule(self, rule_id: int) -> None:
        """Deletes a rule. Raises NotFoundError."""

    async def check_unsubscribing(self, channel_id: int, rule_id: int, token: str) -> None:
        """Raises NotFoundError unless the token is that of a link in a mail."""

    async def unsubscribe(self, channel_id: int, rule_id: int, token: str) -> None:
        """Takes the channel out of the rule. Raises NotFoundError."""

    async def add_channel(
        self, name: str, kind: str, given: Mapping[str, Any], *, enabled: bool = True
    ) -> StoredChannel:
        """Adds a channel. Raises DuplicateError with the existing id."""

    async def change_channel(
        self,
        channel_id: int,
        given: Mapping[str, Any] | None,
        *,
        name: str | None = None,
        enabled: bool | None = None,
    ) -> StoredChannel:
        """Changes a channel; given: its new settings, None: as before. Raises NotFoundError, DuplicateError."""

    async def delete_channel(self, channel_id: int, *, from_rules: bool = False) -> None:
        """Deletes a channel. Raises NotFoundError."""

    async def put_from_file(self, channels: Sequence[ChannelSpec], rules: Sequence[RuleSpec]) -> FileResult:
        """Makes the channels and rules of the configuration file these."""

    async def restore(self, channels: Sequence[ChannelSpec], rules: Mapping[RuleSpec, float | None]) -> FileResult:
        """Adds or changes channels and rules of an export, all or none; rules: until when each is muted."""

    async def rotate_secret(self, channel_id: int, overlap: float) -> StoredChannel:
        """Gives a webhook a new secret. Raises NotFoundError."""

    async def try_channel(self, channel_id: int) -> ChannelAnswer:
        """Sends a test message. Raises NotFoundError."""

    async def resend(self, *, ids: Sequence[int] | None = None, channel_id: int | None = None) -> int:
        """Makes dead notices wait anew; returns how many."""

    def shown(self, row: StoredChannel) -> dict[str, Any]:
        """Returns the settings of a channel without secrets."""

    def not_fenced(self, row: StoredChannel) -> str | None:
        """Returns why the kernel does not hold the plugins of an Apprise channel; None: it does, or there are none."""

    def signing_secret(self, row: StoredChannel) -> str | None:
        """Returns the secret by which a webhook signs, for its one showing."""
