"""The channels and rules of a list: a TOML or YAML document names them beside its sites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import structlog

from pollerd.app.listed.patience import patiently
from pollerd.daemon.control.notifications import NotificationControl
from pollerd.list_document import ListDocument
from pollerd.storage import ChannelSpec, RuleSpec


@dataclass(frozen=True, slots=True)
class ListedNotifications:
    """What a list says of channels and rules. It is the truth about its own, with `--sync` or without."""

    channels: Sequence[ChannelSpec] = ()
    rules: Sequence[RuleSpec] = ()

    @classmethod
    def of(cls, document: ListDocument) -> ListedNotifications:
        """Returns those of a document, checked. Raises InvalidValueError with the place."""
        if not (document.channels or document.rules):
            return cls()
        from pollerd.notifications.specs import channels_of, rules_of  # only where there are some

        return cls(channels_of(document.channels), rules_of(document.rules))

    async def take(self, control: NotificationControl, log: structlog.stdlib.BoundLogger) -> None:
        """Makes these the list's channels and rules; those set over REST stay. Raises InvalidValueError."""
        result = await patiently(partial(control.put_from_file, self.channels, self.rules), log)
        if result.added or result.changed or result.removed:
            log.warning(
                "notifications_set",
                added=", ".join(result.added),
                changed=", ".join(result.changed),
                removed=", ".join(result.removed),
            )
