"""What the user may set about the live loop."""

from __future__ import annotations

from dataclasses import dataclass

from pollerd.allocation.registered import NAMES
from pollerd.errors import InvalidValueError

BUDGET_MIN = 0.01
BUDGET_MAX = 10_000.0


def check_budget(value: float) -> float:
    """The budget, if it can be kept; InvalidValueError otherwise."""
    if not BUDGET_MIN <= value <= BUDGET_MAX:
        raise InvalidValueError("budget", f"polls per second from {BUDGET_MIN} to {BUDGET_MAX:g}", value)
    return float(value)


@dataclass(frozen=True)
class DaemonSettings:
    """The live loop.

    budget: polls (of cost 1) per second, 0.01 to 10,000. full_get_every: every n-th poll of a site is a full GET
    instead of a conditional one, >= 1. max_inflight: polls under way at once, >= 1. flush_seconds: longest wait of a
    finished poll for its commit, above 0 up to 1. gather_seconds: the same of a poll that found nothing new, and whose
    site may not be polled again before; above 0 up to 1, where it is more than flush_seconds. flush_polls: commit at
    once when so many wait, >= 1. tick_seconds: how far ahead sites are chosen, above 0 up to 1. memory_sites: sites
    whose validators and fingerprints are kept in memory; the others are read when they are polled. shadows: allocators
    that run in shadow.
    """

    budget: float = 5.0
    allocator: str = "whittle"
    objective: str = "changes"
    shadows: tuple[str, ...] = ()
    full_get_every: int = 20
    max_inflight: int = 1024
    flush_seconds: float = 0.25
    gather_seconds: float = 1.0
    flush_polls: int = 500
    tick_seconds: float = 0.1
    memory_sites: int = 50_000
    drain_seconds: float = 10.0
    maintenance_seconds: float = 600.0

    def __post_init__(self) -> None:
        check_budget(self.budget)
        if self.allocator not in NAMES:
            raise InvalidValueError("allocator", "one of " + ", ".join(NAMES), self.allocator)
        if not set(self.shadows) <= set(NAMES):
            raise InvalidValueError("shadow", "some of " + ", ".join(NAMES), ", ".join(self.shadows))
        for name in ("full_get_every", "max_inflight", "flush_polls", "memory_sites"):
            if getattr(self, name) < 1:
                raise InvalidValueError(name, "a whole number, 1 or more", getattr(self, name))
        for name in ("flush_seconds", "gather_seconds", "tick_seconds"):
            if not 0 < getattr(self, name) <= 1:
                raise InvalidValueError(name, "seconds above 0, at most 1", getattr(self, name))
        for name in ("drain_seconds", "maintenance_seconds"):
            if not getattr(self, name) >= 0:
                raise InvalidValueError(name, "seconds, 0 or more", getattr(self, name))
