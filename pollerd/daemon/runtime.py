"""The environment shared by the parts of the live daemon."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pollerd.daemon.faults import Faults, StorageHealth
from pollerd.daemon.process import ObservationGaps
from pollerd.daemon.roles import Roles
from pollerd.daemon.settings import DaemonSettings
from pollerd.daemon.workers import WorkerPool
from pollerd.telemetry import Instruments


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """The environment of one running daemon, passed to its parts as one value."""

    settings: DaemonSettings
    clock: Callable[[], float]
    """Wall time, UTC epoch seconds, never running backwards."""
    rng: np.random.Generator
    instruments: Instruments
    workers: WorkerPool
    """Processes, limited in time and memory, for work that would block the event loop."""
    templates: WorkerPool
    """A process for templates that users wrote."""
    faults: Faults
    health: StorageHealth
    """Whether the database accepts reads and commits."""
    blindness: ObservationGaps
    """Periods in which nothing could be polled."""
    roles: Roles
    """Which work for all nodes this one does."""
