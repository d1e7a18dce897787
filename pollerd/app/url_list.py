"""The list of sites: read at every start and at SIGHUP, in blocks, in the format of its suffix."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import BinaryIO, TypeVar

import structlog

from pollerd.api.formats import Format
from pollerd.api.list_formats import Line, may_name_a_site, parse_entries, parse_file, tags_of
from pollerd.daemon.control.control import Control
from pollerd.daemon.control.notifications import NotificationControl
from pollerd.daemon.control.sources import SourceControl
from pollerd.daemon.signal_control import SignalControl
from pollerd.errors import ConfigError, DatabaseUnavailableError, DuplicateError, InvalidValueError, file_fault
from pollerd.lists.list_document import DOCUMENTS, ListDocument, format_of, read_document
from pollerd.site_settings import SiteSpec, TagSettings
from pollerd.storage.notification_values import ChannelSpec, RuleSpec
from pollerd.storage.signals import ListedSignalSource
from pollerd.storage.sources import Source, SourceSpec
from pollerd.texts import N_, _

_RETRY_SECONDS = 2.0
T = TypeVar("T")


async def retry_while_unavailable(call: Callable[[], Awaitable[T]], log: structlog.stdlib.BoundLogger) -> T:
    """Retries until the database is available: lines already read must not be lost, since a pipe is read once."""
    waited = False
    while True:
        try:
            return await call()
        except DatabaseUnavailableError as error:
            if not waited:
                log.warning("list_put_off", reason=str(error))
            waited = True
            await asyncio.sleep(_RETRY_SECONDS)


# Other sections of a TOML or YAML list: sources, signal sources, channels and rules.


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
        existing = await self._there()
        for spec in self._listed:
            source = existing.get(spec.url)
            if source is not None and sync and source.spec.kind != spec.kind:  # which cannot be changed
                await retry_while_unavailable(partial(self._control.delete, source.id), self._log)
                source = None
            if source is None:
                await self._add(spec)
            elif sync and source.spec != spec:
                await retry_while_unavailable(partial(self._control.update, source.id, spec), self._log)
                self._log.warning("source_set", url=spec.url)

    async def _add(self, spec: SourceSpec) -> None:
        try:
            await retry_while_unavailable(partial(self._control.add, spec), self._log)
        except DuplicateError:  # added before; the answer was lost
            return
        self._log.info("source_added", url=spec.url)

    async def remove(self) -> None:
        """Removes the sources that are not in the list. Sites that they added stay; they are nobody's then."""
        if self._listed is None:
            return
        kept = {spec.url for spec in self._listed}
        for url, source in (await self._there()).items():
            if url not in kept:
                await retry_while_unavailable(partial(self._control.delete, source.id), self._log)
                self._log.warning("source_removed", url=url)

    async def _there(self) -> dict[str, Source]:
        sources = await retry_while_unavailable(self._control.all, self._log)
        return {source.spec.url: source for source in sources}


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
        result = await retry_while_unavailable(partial(control.put_from_file, self.channels, self.rules), log)
        added, changed, removed = map(", ".join, (result.added, result.changed, result.removed))
        if added or changed or removed:
            log.warning("notifications_set", added=added, changed=changed, removed=removed)


async def take_signal_sources(
    control: SignalControl, listed: Sequence[ListedSignalSource], log: structlog.stdlib.BoundLogger
) -> None:
    """Makes these the list's signal sources; those set over REST stay, unless the list names them."""
    result = await retry_while_unavailable(partial(control.put_from_file, listed), log)
    for url in result.refused:
        log.warning("signal_source_refused", url=url, reason="no site has its URL")
    added, changed, removed = map(", ".join, (result.added, result.changed, result.removed))
    if added or changed or removed:
        log.warning("signal_sources_set", added=added, changed=changed, removed=removed)


_LIST_BLOCK = 10_000
"""Lines per transaction: commits of polls wait for one transaction at most, a third of a second."""
_REJECTED_SHOWN = 20
_REJECTED_ENOUGH = 1_000
"""Number of bad lines from which reading stops if they outnumber the good ones: the file is not a list."""


def check_list(path: Path) -> None:
    """Raises ConfigError if the list cannot be read, is invalid as a whole, or has lines but none that is valid."""
    _format(path)
    if not path.is_fifo():  # reading would consume a pipe
        with _open(path) as file:
            _require_a_site(path, file)


def list_at_once(path: Path) -> BytesIO:
    """Reads the whole list, so that a read error discards all of it, and later writes have no effect.

    Raises ConfigError if it cannot be read, or has lines but none that is valid. Takes time: run it in a thread.
    """
    _format(path)
    with _open(path) as file:
        try:
            whole = file.read()
        except OSError as error:
            raise ConfigError(_("list of sites: {fault}", fault=file_fault(path, error))) from error
    _require_a_site(path, BytesIO(whole))
    return BytesIO(whole)


def _require_a_site(path: Path, file: BinaryIO) -> None:
    """Raises ConfigError if the list has lines but none that is valid, and no sources."""
    contents = _read(path, file)
    if contents.sources or contents.signal_sources:
        return
    refusal, rejected = None, 0
    for number, entry in contents.lines:
        if isinstance(entry, SiteSpec):
            return
        if entry is not None:
            refusal, rejected = refusal or (number, entry), rejected + 1
        if rejected == _REJECTED_ENOUGH:
            break
    if refusal is not None:
        number, error = refusal
        place = _(N_("entry {number}") if format_of(path) in DOCUMENTS else N_("line {number}"), number=number)
        first = error.of(place) if error.field == "line" else f"{place}: {error}"
        raise ConfigError(_("{path} names no site that can be used; {first}", path=path, first=first))


def lines_of(path: Path, file: BinaryIO) -> Iterator[Line]:
    """Parses the sites of a list from `file`, in the format of the suffix of `path`.

    Text, CSV and JSON lines are read lazily, OPML, TOML and YAML at once. Raises ConfigError for an unknown format and
    for a document that cannot be parsed as a whole.
    """
    return _read(path, file).lines


@dataclass(frozen=True, slots=True)
class _Contents:
    """What a list holds. Tags, sources and signal sources None: its format cannot name any."""

    lines: Iterator[Line]
    tags: Sequence[TagSettings] | None = None
    sources: Sequence[SourceSpec] | None = None
    signal_sources: Sequence[ListedSignalSource] | None = None
    notifying: ListedNotifications | None = None
    """Its channels and rules. None: its format cannot name any."""


def _read(path: Path, file: BinaryIO) -> _Contents:
    """Returns what the list holds; its sites are read as they are asked for."""
    form = _format(path)
    try:
        if form in DOCUMENTS:
            from pollerd.api.list_diff import signal_sources_of  # loads the API, which a list of sites does not need
            from pollerd.api.sources import sources_of

            document = read_document(file.read(), form, path.parent)
            listed_signals = signal_sources_of(document.signal_sources)
            return _Contents(
                _with_sites(parse_entries(document.entries), listed_signals),
                tags_of(document.tags),
                sources_of(document.sources),
                listed_signals,
                ListedNotifications.of(document),
            )
        return _Contents(parse_file(file, Format(form)))
    except (ConfigError, InvalidValueError) as error:
        raise ConfigError(f"{path}: {error}") from error


async def read_list(path: Path, control: Control, *, sync: bool, file: BinaryIO | None = None) -> None:
    """Adds the new sites of the list.

    With `sync` the list replaces all sites: others are removed, and settings are reset to the list's or to their
    defaults.

    A list with mostly bad lines is not read to its end, and then removes nothing. `file`: the contents of the list, if
    already read. Raises ConfigError if it cannot be read.
    """
    opened = _open(path) if file is None else file
    with opened:
        contents = await asyncio.to_thread(_read, path, opened)
        await _Reading(path, control, sync, contents).read()


@dataclass
class _Reading:
    """One pass over a list, with its results."""

    path: Path
    control: Control
    sync: bool
    contents: _Contents
    listed: set[str] = field(default_factory=set)
    good: int = 0
    rejected: int = 0
    unread: int = 0
    """Number of rejected lines that may concern existing sites."""
    counts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("added", "existing", "left_out_as_deleted", "changed", "removed"), 0)
    )

    def __post_init__(self) -> None:
        self._log = structlog.get_logger("pollerd.list").bind(file=str(self.path))

    async def read(self) -> None:
        """Reads all lines. The next block is read while the database stores the previous one."""
        lines = self.contents.lines
        await self._take_notifications()
        await self._take_tags()
        block = await _some(lines)
        while block:
            specs, last = self._usable(block), block[-1][0]
            if self._is_no_list:
                await self._take(specs)
                reason, effect = _("most lines cannot be used"), _("the rest is not read; sites that were added stay")
                self._log.error("list_stopped", line=last, rejected=self.rejected, reason=reason, effect=effect)
                break
            _taken, block = await asyncio.gather(self._take(specs), _some(lines))
        sources = ListedSources(self.control.sources, self.contents.sources, self._log)
        await sources.take(sync=self.sync)
        if self.sync:
            await self._remove(sources)
        if self.contents.signal_sources is not None:
            await take_signal_sources(self.control.signals, self.contents.signal_sources, self._log)
        if not (self.good or self.contents.sources):
            reason = _("none of its lines can be used") if self.rejected else _("it names no site")
            self._log.warning("list_without_sites", reason=reason)
        self._log.info(
            "list_read",
            added=self.counts["added"],
            existing=self.counts["existing"],
            changed=self.counts["changed"],
            removed=self.counts["removed"],
            deleted_before=self.counts["left_out_as_deleted"],
            rejected=self.rejected,
        )

    @property
    def _is_no_list(self) -> bool:
        return self.rejected >= _REJECTED_ENOUGH and self.rejected > self.good

    async def _remove(self, sources: ListedSources) -> None:
        if self._is_no_list:
            reason = _("most lines cannot be used")
        elif self.unread:
            reason = _("{unread} lines that cannot be used might name existing sites", unread=self.unread)
        elif self.rejected and not self.listed:
            reason = _("no line can be used")
        else:
            await sources.remove()  # first: sites that they added are missing then
            missing = partial(self.control.sites.delete_missing, self.listed)
            self.counts["removed"] = await retry_while_unavailable(missing, self._log)
            await self._remove_tags()
            return
        self._log.error("sync_refused", reason=reason, effect="nothing is removed")

    async def _take_notifications(self) -> None:
        """Takes channels and rules, before anything else: what is refused changes nothing."""
        if self.contents.notifying is not None:
            try:
                await self.contents.notifying.take(self.control.notifications, self._log)
            except InvalidValueError as error:
                raise ConfigError(f"{self.path}: {error}") from error

    async def _take_tags(self) -> None:
        """Gives tags their settings: all of the list with `sync`, else those that have none yet."""
        for tag in self.contents.tags or ():
            if self.sync or tag.name not in self.control.tags.all():
                try:
                    await retry_while_unavailable(partial(self.control.tags.put, tag, by="the list"), self._log)
                except InvalidValueError as error:
                    self._log.warning("tag_refused", tag=tag.name, reason=str(error))

    async def _remove_tags(self) -> None:
        if self.contents.tags is not None:
            for name in set(self.control.tags.all()) - {tag.name for tag in self.contents.tags}:
                await retry_while_unavailable(partial(self.control.tags.delete, name, by="the list"), self._log)

    def _usable(self, block: Sequence[Line]) -> list[SiteSpec]:
        specs = []
        for line, entry in block:
            if isinstance(entry, InvalidValueError):
                self.unread += may_name_a_site(entry)
                self._reject(line, str(entry))
            elif entry is None:
                continue
            elif self.sync and entry.url in self.listed:
                # Otherwise the settings would alternate between both at each start.
                self._reject(line, _("url: {url} is in the list already; the first line counts", url=entry.url))
            else:
                specs.append(entry)
                self.good += 1
                if self.sync:
                    self.listed.add(entry.url)
        return specs

    def _reject(self, line: int, reason: str) -> None:
        self.rejected += 1
        if self.rejected <= _REJECTED_SHOWN:
            self._log.warning("line_rejected", line=line, reason=reason)

    async def _take(self, specs: Sequence[SiteSpec]) -> None:
        adding = partial(self.control.sites.add, specs, respect_deleted=not self.sync)
        result = await retry_while_unavailable(adding, self._log)
        refused = [error for _i, error in result.refused]
        if self.sync and result.existing:
            settling = partial(self.control.sites.put_settings, [specs[i] for _site_id, i in result.existing])
            settled = await retry_while_unavailable(settling, self._log)
            self.counts["changed"] += len(settled.changed)
            refused += [error for _site_id, error in settled.refused]
        for error in refused:
            self._log.warning("site_refused", reason=str(error))
        self.counts["added"] += len(result.added)
        self.counts["existing"] += len(result.existing)
        self.counts["left_out_as_deleted"] += len(result.deleted)


def _with_sites(lines: Iterator[Line], listed: Sequence[ListedSignalSource]) -> Iterator[Line]:
    """Yields the lines, then a site for each signal source that none of them names."""
    missing, number = {source.url: None for source in listed if source.url is not None}, 0
    for number, entry in lines:
        if isinstance(entry, SiteSpec):
            missing.pop(entry.url, None)
        yield number, entry
    yield from ((number + place, SiteSpec(url)) for place, url in enumerate(missing, 1))


async def _some(lines: Iterator[Line]) -> list[Line]:
    """Returns the next lines; empty at the end."""
    return await asyncio.to_thread(list, islice(lines, _LIST_BLOCK))


def _format(path: Path) -> str:
    try:
        return format_of(path)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise ConfigError(_("list of sites: {fault}", fault=file_fault(path, error))) from error
