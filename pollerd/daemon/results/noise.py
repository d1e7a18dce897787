"""Repeat fetches: what differs between two polls in quick succession is noise, and is masked afterwards."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from msgspec.structs import replace

from pollerd.daemon.state.poll_result import PollResult
from pollerd.daemon.state.runtime import Runtime
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.detection import HEAVY_UNDER_MASK_BYTES, learn_from_pair, mask_is_stale, under_known_noise
from pollerd.errors import DatabaseUnavailableError
from pollerd.model import Baseline, Detection, Evidence, OutcomeKind
from pollerd.storage import HistoryStore

_PROMPT_SECONDS = 30.0
"""Longest delay from its choice to its start for a repeat fetch: later the page has had time to change."""
_SHARED_MASKS = 8
_TRIED_MOST = 1024

T = TypeVar("T")


class NoiseDetector:
    """Tells noise from changes of the page, by repeat fetches."""

    def __init__(self, *, scheduler: SchedulerState, store: HistoryStore, runtime: Runtime) -> None:
        self._scheduler, self._store, self._workers = scheduler, store, runtime.workers
        self._faults, self._instruments = runtime.faults, runtime.instruments
        self._shared: deque[tuple[int, bytes]] = deque(maxlen=_SHARED_MASKS)
        """Hosts and their recently learned masks: pages of the same program or host have the same noise."""
        self._tried: dict[int, tuple[bytes, ...]] = {}
        """Site id -> masks tried there, so that each is tried once."""

    async def judged(self, result: PollResult, first: bytes | None) -> PollResult:
        """Returns the result with noise recognised; unchanged if there is nothing to learn from.

        `first` is the content of the poll before, None if it is not stored. The mask learned from the two fetches is in
        the result's baseline; two fetches that are equal under it found no change. Raises DatabaseUnavailableError.
        """
        detection = result.detection
        if detection is None or detection.content is None or first is None:
            return result
        try:
            if self._is_repeat(result):
                given = await self._learned(result, detection, first, detection.content)
            elif detection.baseline.mask:
                await self._look_at_structure(result.slot, detection.content, detection.baseline.mask)
                return result
            else:
                given = await self._recognised(result, detection, first, detection.content)
        except DatabaseUnavailableError:
            raise
        except Exception as error:  # noqa: BLE001
            self._faults.report(result.context, error)
            return result
        return result if given is None else replace(result, detection=given)

    async def _look_at_structure(self, slot: int, content: bytes, mask: bytes) -> None:
        """Requests a repeat fetch if the page was restructured, since its mask must be learned again."""
        if await self._do(len(content), mask_is_stale, content, mask):
            self._scheduler.sites.suspect(slot)

    async def _learned(self, result: PollResult, detection: Detection, first: bytes, second: bytes) -> Detection | None:
        """Returns the detection under the mask learned from the two fetches; None if they teach nothing."""
        context = result.context
        earlier = await self._store.load_content_before(context.site_id, context.content_id or 0)
        size = len(first) + len(second)
        baseline, same = await self._do(size, learn_from_pair, first, second, detection.baseline, earlier)
        if baseline.mask == context.baseline.mask:
            return None
        self._instruments.masks_learned.inc()
        if not same:
            return replace(detection, baseline=baseline)
        self._share(result.slot, baseline.mask)
        return _quiet(detection, baseline)

    async def _recognised(
        self, result: PollResult, detection: Detection, first: bytes, second: bytes
    ) -> Detection | None:
        """Returns the detection of a site without a mask if a mask recently learned elsewhere explains its change.

        For sites that always change all masks are tried, each once; for sites with few polls that have all found
        changes, those of their host.
        """
        masks = self._to_try(result.site_id, result.slot)
        if not masks:
            return None
        size = (len(first) + len(second)) * len(masks)
        baseline = await self._do(size, under_known_noise, first, second, detection.baseline, masks)
        if baseline is None:
            return None
        self._instruments.masks_learned.inc()
        self._share(result.slot, baseline.mask)
        return _quiet(detection, baseline)

    def _to_try(self, site_id: int, slot: int) -> tuple[bytes, ...]:
        sites, here = self._scheduler.sites, np.array([slot])
        if not self._shared or not sites.changes_always(here, after=0)[0]:
            return ()
        if not sites.changes_always(here)[0]:
            return tuple(mask for host, mask in self._shared if host == sites.host[slot])
        tried = self._tried.setdefault(site_id, ())
        masks = tuple(dict.fromkeys(mask for _, mask in self._shared if mask not in tried))
        self._tried[site_id] = (*tried, *masks)[-_SHARED_MASKS:]
        while len(self._tried) > _TRIED_MOST:
            del self._tried[next(iter(self._tried))]
        return masks

    def _share(self, slot: int, mask: bytes) -> None:
        """Offers the mask to other sites."""
        learned = (int(self._scheduler.sites.host[slot]), mask)
        if learned not in self._shared:
            self._shared.append(learned)

    async def _do(self, size: int, work: Callable[..., T], *arguments: object) -> T:
        """Runs the work, in a worker if it may take long."""
        return work(*arguments) if size <= HEAVY_UNDER_MASK_BYTES else await self._workers.do(work, *arguments)

    def _is_repeat(self, result: PollResult) -> bool:
        sites, slot = self._scheduler.sites, result.slot
        chosen_at = float(sites.repeat_at[slot])
        prompt = result.outcome.started_at - chosen_at <= _PROMPT_SECONDS
        return bool(sites.site_id[slot] == result.site_id and chosen_at > sites.last_poll[slot] and prompt)


def _quiet(detection: Detection, baseline: Baseline) -> Detection:
    """Returns the detection as unchanged."""
    evidence = Evidence(changed=False) if detection.evidence is not None else None
    return replace(detection, kind=OutcomeKind.UNCHANGED, baseline=baseline, evidence=evidence, content=None)
