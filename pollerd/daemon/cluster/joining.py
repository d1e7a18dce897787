"""Joins the nodes that are there, and takes over their allocation; the first one sets it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import structlog

from pollerd.cluster.splitting import UNSPLIT, unsplit_among
from pollerd.daemon.state.settings import ALLOCATION_SETTINGS, DaemonSettings, shadows_beside
from pollerd.errors import ConfigError
from pollerd.storage import AllocationRow, SharedAllocation


async def join(shared: SharedAllocation, settings: DaemonSettings, chosen: Collection[str]) -> DaemonSettings:
    """Returns the settings with the allocation of all nodes.

    The first node sets it: what the user chose (`chosen`: names of such settings, and `shadows`), else what is stored.
    A later one takes what the others have, whatever was chosen for it. Raises ConfigError if the others have
    what cannot be split; the first node may have it, alone (see `runs_alone`).
    """

    def choose(kept: AllocationRow | None) -> AllocationRow:
        values = {
            name: getattr(settings if kept is None or name in chosen else kept, name) for name in ALLOCATION_SETTINGS
        }
        if values["deadline"] is None:  # of a database in which none was set yet
            values["deadline"] = settings.deadline
        if kept is None or "shadows" in chosen:
            return AllocationRow(**values, shadows=settings.shadows)
        return AllocationRow(**values, shadows=shadows_beside(values["allocator"], kept.shadows))

    row = await shared.join(choose, _check)
    log = structlog.get_logger("pollerd.cluster")
    for name in ALLOCATION_SETTINGS:
        if name in chosen and getattr(row, name) != getattr(settings, name):
            instead_of, of_all = getattr(settings, name), getattr(row, name)
            log.warning("setting_of_all_nodes", setting=name, in_force=of_all, instead_of=instead_of)
    # Shadows are put when the node follows the allocation, as those of a later change.
    in_force = {name: getattr(row, name) for name in ALLOCATION_SETTINGS if getattr(row, name) is not None}
    return replace(settings, **in_force, shadows=())


def runs_alone(settings: DaemonSettings) -> bool:
    """Returns whether a daemon with these settings must have the database for itself."""
    return settings.allocator in UNSPLIT


def _check(row: AllocationRow, others: Sequence[str]) -> None:
    """Raises ConfigError if there are others and the allocation cannot be split."""
    whole = unsplit_among((row.allocator, *row.shadows))
    if others and whole:
        raise ConfigError(
            f"node: node {', '.join(others)} polls with {', '.join(whole)}, whose state cannot be split over several"
            f" nodes; set another one there first (not {', '.join(sorted(UNSPLIT))})"
        )
