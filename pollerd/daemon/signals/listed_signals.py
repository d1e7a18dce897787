"""Brings signal sources in step with those that a list or an export names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pollerd.storage import ListedSignalSource, SignalOrigin, SignalSource, SignalSourceSpec, SignalStore


class ChangesSignalSources(Protocol):
    """Adds and removes signal sources."""

    async def add(self, spec: SignalSourceSpec, *, origin: SignalOrigin = SignalOrigin.API) -> SignalSource:
        """Adds one. Raises DuplicateError, InvalidValueError."""

    async def remove(self, source_id: int) -> None:
        """Deletes one, wherever it comes from."""


@dataclass(slots=True)
class SignalSourcesSet:
    """What became of signal sources that were named, by URL or name."""

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """Their URLs are those of no sites."""


async def set_signal_sources(
    store: SignalStore,
    control: ChangesSignalSources,
    listed: Sequence[ListedSignalSource],
    *,
    origin: SignalOrigin,
    on_change: Callable[[SignalSource], None],
) -> SignalSourcesSet:
    """Adds those that are not there, and sets kind, hosts and origin of the others.

    on_change: called for each that was set. origin: of those that are added. A file takes over those that it names, and
    removes those that it no longer names; an export neither. Raises DatabaseUnavailableError; may be repeated.
    """
    result, there = SignalSourcesSet(), {one.key: one for one in await store.all()}
    sites = await store.sites_at([one.url for one in listed if one.url is not None])
    for one in listed:
        known = there.get(one.key)
        if known is None:
            site_id = None if one.url is None else sites.get(one.url)
            if one.url is not None and site_id is None:
                result.refused.append(one.url)
                continue
            await control.add(SignalSourceSpec(one.kind, site_id, one.name, one.hosts), origin=origin)
            result.added.append(one.key)
            continue
        wanted = origin if origin is SignalOrigin.FILE else known.origin
        if (known.spec.kind, known.spec.hosts, known.origin) != (one.kind, one.hosts, wanted):
            on_change(await store.change(known.id, one.kind, one.hosts, wanted))
            result.changed.append(one.key)
    if origin is SignalOrigin.FILE:
        named = {one.key for one in listed}
        for key, known in there.items():
            if known.origin is SignalOrigin.FILE and key not in named:
                await control.remove(known.id)
                result.removed.append(key)
    return result
