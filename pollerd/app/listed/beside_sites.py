"""What a TOML or YAML document names beside its sites: sources, signal sources, channels and rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import structlog

from pollerd.app.listed.patience import patiently
from pollerd.daemon import SourceControl
from pollerd.daemon.control.notifications import NotificationControl
from pollerd.daemon.signals.signal_control import SignalControl
from pollerd.errors import DuplicateError
from pollerd.list_document import ListDocument
from pollerd.storage import ChannelSpec, ListedSignalSource, RuleSpec, Source, SourceSpec


class ListedSources:
    """Brings sources in step with a list. `listed`: its sources; None: its format cannot name any."""

    def __init__(
        self, control: SourceControl, listed: Sequence[SourceSpec] | None, log: structlog.stdlib.BoundLogger
    ) -> None:
        self._control, self._listed, self._log = control, listed, log

    async def take(self, *, sync: bool) -> None:
        """Adds the sources that are not there; with `sync` gives the others the settings of the list."""
        if not self._listed:
            return
        there = await self._there()
        for spec in self._listed:
            source = there.get(spec.url)
            if source is not None and sync and source.spec.kind != spec.kind:  # which cannot be changed
                await patiently(partial(self._control.delete, source.id), self._log)
                source = None
            if source is None:
                await self._add(spec)
            elif sync and source.spec != spec:
                await patiently(partial(self._control.update, source.id, spec), self._log)
                self._log.warning("source_set", source=spec.url)

    async def _add(self, spec: SourceSpec) -> None:
        try:
            await patiently(partial(self._control.add, spec), self._log)
        except DuplicateError:  # added before; the answer was lost
            return
        self._log.info("source_added", source=spec.url)

    async def remove(self) -> None:
        """Removes the sources that are not in the list. Sites that they added stay; they are nobody's then."""
        if self._listed is None:
            return
        kept = {spec.url for spec in self._listed}
        for url, source in (await self._there()).items():
            if url not in kept:
                await patiently(partial(self._control.delete, source.id), self._log)
                self._log.warning("source_removed", source=url)

    async def _there(self) -> dict[str, Source]:
        found = await patiently(self._control.all, self._log)
        return {source.spec.url: source for source in found}


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
        _log_set(log, "notifications_set", result.added, result.changed, result.removed)


async def take_signal_sources(
    control: SignalControl, listed: Sequence[ListedSignalSource], log: structlog.stdlib.BoundLogger
) -> None:
    """Makes these the list's signal sources; those set over REST stay, unless the list names them."""
    result = await patiently(partial(control.put_from_file, listed), log)
    for url in result.refused:
        log.warning("signal_source_refused", source=url, reason="its URL is that of no site")
    _log_set(log, "signal_sources_set", result.added, result.changed, result.removed)


def _log_set(
    log: structlog.stdlib.BoundLogger, event: str, added: Sequence[str], changed: Sequence[str], removed: Sequence[str]
) -> None:
    """Logs what a list changed, if anything."""
    if added or changed or removed:
        log.warning(event, added=", ".join(added), changed=", ".join(changed), removed=", ".join(removed))
