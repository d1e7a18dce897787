"""The noise step: recognises changes that are only noise, and summarises the others."""

from __future__ import annotations

from collections.abc import Sequence

from pollerd.daemon.results.noise import NoiseDetector
from pollerd.daemon.state.poll_result import PollResult
from pollerd.daemon.state.runtime import Runtime
from pollerd.detection import HEAVY_UNDER_MASK_BYTES, summarise
from pollerd.model import Media, OutcomeKind
from pollerd.storage import HistoryStore

_SUMMARISED_HERE_BYTES = 256 * 1024
"""Two contents of this total size are summarised in about 10 ms."""


class NoiseStep:
    """Compares changed contents with the previous ones, which it reads from the store."""

    def __init__(self, *, store: HistoryStore, noise: NoiseDetector, runtime: Runtime) -> None:
        self._store, self._noise = store, noise
        self._workers, self._faults = runtime.workers, runtime.faults

    async def recognise(self, results: Sequence[PollResult]) -> tuple[Sequence[PollResult], dict[int, str]]:
        """Returns the results with noise recognised, and a one-line summary of each change by site id.

        Raises DatabaseUnavailableError.
        """
        changed = [i for i, result in enumerate(results) if _changed(result)]
        if not changed:
            return results, {}
        wanted = [key for i in changed if (key := results[i].context.content_id) is not None]
        contents = await self._store.load_contents(wanted) if wanted else {}
        out, summaries = list(results), {}
        for i in changed:
            before = contents.get(out[i].context.content_id or 0)
            out[i] = await self._noise.judged(out[i], before)
            if _changed(out[i]):
                summaries[out[i].site_id] = await self._summary(out[i], before)
        return out, summaries

    async def _summary(self, result: PollResult, before: bytes | None) -> str:
        """Returns a one-line summary of the change; empty if there is none."""
        detection, context = result.detection, result.context
        if detection is None or detection.content is None:
            return ""
        mask, media = detection.baseline.mask, detection.baseline.media or Media.BINARY
        size = len(before or b"") + len(detection.content)
        order = (context.baseline.items, detection.baseline.items)
        try:
            if size < (HEAVY_UNDER_MASK_BYTES if mask else _SUMMARISED_HERE_BYTES):
                return summarise(before, detection.content, media, mask, order)
            return await self._workers.do(summarise, before, detection.content, media, mask, order)
        except Exception as error:  # noqa: BLE001
            self._faults.report(context, error)
            return ""


def _changed(result: PollResult) -> bool:
    return result.detection is not None and result.detection.kind is OutcomeKind.CHANGED
