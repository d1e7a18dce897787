"""Changes that wait for their proof, in memory: one that is dropped or lost is found again by the next poll."""

from __future__ import annotations

from pollerd.daemon.state.poll_result import Candidate
from pollerd.storage import SiteContext

MOST_BYTES = 64 * 1024 * 1024
_OVERHEAD_BYTES = 2_048


class Candidates:
    """Waiting changes by site, up to `most_bytes` of content; the oldest are dropped, but never the newest."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes, self._bytes = most_bytes, 0
        self._waiting: dict[int, Candidate] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, site_id: int) -> bool:
        return site_id in self._waiting

    def get(self, context: SiteContext) -> Candidate | None:
        """Returns the waiting change of the site; None if its settings or what it is held against are others by now."""
        found = self._waiting.get(context.site_id)
        return found if found is not None and _key(found.result.context) == _key(context) else None

    def put(self, candidate: Candidate) -> None:
        """Keeps a waiting change in place of the site's last one."""
        site_id = candidate.result.site_id
        self.drop(site_id)
        self._waiting[site_id] = candidate
        self._bytes += candidate.size + _OVERHEAD_BYTES
        while self._bytes > self._most_bytes and len(self._waiting) > 1:
            self.drop(next(iter(self._waiting)))

    def drop(self, site_id: int) -> None:
        """Forgets the waiting change of the site, if there is one."""
        gone = self._waiting.pop(site_id, None)
        if gone is not None:
            self._bytes -= gone.size + _OVERHEAD_BYTES


def _key(context: SiteContext) -> tuple[object, ...]:
    states = tuple((state.name, state.version, state.baseline.fingerprint) for state in context.states)
    baseline = context.baseline
    return (context.url, context.selections, context.settings_changed_at, baseline.fingerprint, baseline.mask, states)
