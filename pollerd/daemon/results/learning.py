"""The learning step: what the polls tell of changes goes to the allocator."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import structlog
from msgspec.structs import replace

from pollerd.allocation import EvidenceBatch
from pollerd.daemon.results.calibration import CalibrationSums
from pollerd.daemon.results.status import StatusStep
from pollerd.daemon.state.poll_result import PollResult
from pollerd.daemon.state.runtime import Runtime
from pollerd.daemon.state.scheduler_state import SchedulerState
from pollerd.storage import PollRecord


class LearningStep:
    """Hands evidence to the allocator and adds what it has learned to the records."""

    def __init__(
        self, scheduler: SchedulerState, status: StatusStep, calibration: CalibrationSums, runtime: Runtime
    ) -> None:
        self._scheduler, self._status, self._calibration = scheduler, status, calibration
        self._faults = runtime.faults
        self._log = structlog.get_logger("pollerd.results")

    def learn(self, results: Sequence[PollResult], records: Sequence[PollRecord]) -> list[PollRecord]:
        """The records with the allocator's state of their sites; a site whose evidence raises is set aside.

        Failures and undated first polls tell nothing. A policy checks a batch before it learns from it, so one that it
        refuses can be handed over again, poll by poll.
        """
        misled = [result.slot for result, record in zip(results, records, strict=True) if record.mask_changed]
        if misled:
            self._scheduler.learn_anew(np.array(misled, np.int64))
        out = list(records)
        informed = [i for i, pair in enumerate(zip(results, records, strict=True)) if _tells(*pair)]
        try:
            self._observe(results, out, informed)
        except Exception as error:  # noqa: BLE001
            self._log.warning("batch_refused", polls=len(informed), reason=str(error), instead="poll by poll")
            for i in informed:
                try:
                    self._observe(results, out, [i])
                except Exception as cause:  # noqa: BLE001
                    out[i] = self._unlearnable(results[i], out[i], cause)
        return self._with_states(results, out)

    def _observe(self, results: Sequence[PollResult], records: Sequence[PollRecord], rows: Sequence[int]) -> None:
        if not rows:
            return
        found = [detection.evidence for i in rows if (detection := results[i].detection) is not None]
        evidence = [one for one in found if one is not None]
        gaps = [records[i].poll.elapsed for i in rows]
        batch = EvidenceBatch(
            changed=np.array([one.changed for one in evidence], np.bool_),
            age=np.array([math.nan if one.age is None else one.age for one in evidence], np.float64),
            count=np.array([-1 if one.count is None else one.count for one in evidence], np.int64),
        )
        elapsed = np.array([math.inf if gap is None else gap for gap in gaps], np.float64)
        slots = np.array([results[i].slot for i in rows], np.int64)
        predicted = self._scheduler.allocator.change_probability(slots, elapsed)
        self._scheduler.observe(slots, elapsed, batch, records[-1].poll.at)
        self._calibration.note(predicted, elapsed, batch)

    def _unlearnable(self, result: PollResult, record: PollRecord, error: Exception) -> PollRecord:
        """The record of a poll that the allocator cannot learn from.

        It keeps what was found; the site backs off as after a failure and says why.
        """
        aside = self._status.record(self._faults.set_aside(result.slot, result.context, error))
        return replace(
            record,
            poll=replace(record.poll, detail=aside.poll.detail),
            state=aside.state,
            not_before=aside.not_before,
            failures=aside.failures,
        )

    def _with_states(self, results: Sequence[PollResult], records: list[PollRecord]) -> list[PollRecord]:
        """Adds the allocator's state of the sites that it has just learned from."""
        rows = [i for i, record in enumerate(records) if record.poll.outcome.informative]
        if rows:
            states = self._scheduler.allocator.site_state(np.array([results[i].slot for i in rows], np.int64))
            for i, state in zip(rows, states, strict=True):
                records[i] = replace(records[i], learned=state.tobytes())
        return records


def _tells(result: PollResult, record: PollRecord) -> bool:
    """Whether the poll says anything of its site's changes."""
    evidence = None if result.detection is None else result.detection.evidence
    return evidence is not None and (record.poll.elapsed is not None or evidence.age is not None)
