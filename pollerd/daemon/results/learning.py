"""The learning step: passes the evidence of polls to the allocator."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import structlog
from msgspec.structs import replace

from pollerd.allocation import EvidenceBatch
from pollerd.daemon.results.calibration import CalibrationSums
from pollerd.daemon.results.status import StatusStep
from pollerd.daemon.signals.signal_yield import SignalYield
from pollerd.daemon.state.poll_effect import PollEffect
from pollerd.daemon.state.poll_result import PollResult
from pollerd.daemon.state.runtime import Runtime
from pollerd.daemon.state.scheduler_state import SchedulerState


class LearningStep:
    """Passes evidence to the allocator, and reads its learned state."""

    def __init__(
        self,
        *,
        scheduler: SchedulerState,
        status: StatusStep,
        calibration: CalibrationSums,
        signal_yield: SignalYield,
        runtime: Runtime,
    ) -> None:
        self._scheduler, self._status, self._calibration = scheduler, status, calibration
        self._signal_yield, self._faults = signal_yield, runtime.faults
        self._log = structlog.get_logger("pollerd.results")

    def learn(
        self, results: Sequence[PollResult], effects: Sequence[PollEffect]
    ) -> tuple[list[PollEffect], dict[int, bytes]]:
        """Returns the effects, with sites whose evidence raises set aside, and the allocator's state of the sites by
        row.

        Failures and undated first polls are no evidence. A policy checks a batch before it learns from it, so a refused
        batch can be passed again poll by poll.
        """
        misled = [result.slot for result, effect in zip(results, effects, strict=True) if effect.misled]
        if misled:
            self._scheduler.learn_anew(np.array(misled, np.int64))
        self._note_items_shown(results, effects)
        out = list(effects)
        counts_items = self._scheduler.allocator.counts_items
        pairs = zip(results, effects, strict=True)
        informed = [i for i, pair in enumerate(pairs) if _is_evidence(*pair, counts_items=counts_items)]
        try:
            self._observe(results, out, informed)
        except Exception as error:  # noqa: BLE001
            # One poll that the allocator refuses must not cost what the others teach: each is passed alone.
            again = "poll by poll"
            self._log.warning("batch_refused", polls=len(informed), reason=str(error), instead=again, exc_info=error)
            for i in informed:
                try:
                    self._observe(results, out, [i])
                except Exception as cause:  # noqa: BLE001 (reported, and the site is set aside)
                    out[i] = self._unlearnable(results[i], out[i], cause)
        return out, self._states(results, out)

    def _observe(self, results: Sequence[PollResult], effects: Sequence[PollEffect], rows: Sequence[int]) -> None:
        if not rows:
            return
        found = [detection.evidence for i in rows if (detection := results[i].detection) is not None]
        evidence = [one for one in found if one is not None]
        gaps = [effects[i].poll.elapsed for i in rows]
        batch = EvidenceBatch(
            changed=np.array([one.changed for one in evidence], np.bool_),
            age=np.array([math.nan if one.age is None else one.age for one in evidence], np.float64),
            count=np.array([-1 if one.count is None else one.count for one in evidence], np.int64),
            at_least=np.array([-1 if one.at_least is None else one.at_least for one in evidence], np.int64),
            span=np.array([math.nan if one.span is None else one.span for one in evidence], np.float64),
        )
        elapsed = np.array([math.inf if gap is None else gap for gap in gaps], np.float64)
        slots = np.array([results[i].slot for i in rows], np.int64)
        predicted = self._scheduler.allocator.change_probability(slots, elapsed)
        again = np.isfinite(elapsed) | ~np.isnan(batch.age)
        self._signal_yield.note(slots[again], predicted[again], batch.found[again], effects[-1].poll.at)
        self._scheduler.observe(slots, elapsed, batch, effects[-1].poll.at)
        self._calibration.note(predicted, elapsed, batch)

    def _note_items_shown(self, results: Sequence[PollResult], effects: Sequence[PollEffect]) -> None:
        """Passes on how many items the feeds show that were read."""
        read = [i for i, effect in enumerate(effects) if effect.poll.outcome.informative]
        windows = [effects[i].context.baseline.window for i in read]
        shown = [math.nan if window is None or window.shown is None else window.shown for window in windows]
        slots = np.array([results[i].slot for i in read], np.int64)
        self._scheduler.set_items_shown(slots, np.array(shown, np.float64))

    def _unlearnable(self, result: PollResult, effect: PollEffect, error: Exception) -> PollEffect:
        """Returns the effect of a poll that the allocator cannot learn from.

        What the poll found stays; the site backs off as after a failure and gives the reason.
        """
        aside = self._status.effect(self._faults.set_aside(result.slot, result.context, error))
        return replace(
            effect,
            poll=replace(effect.poll, detail=aside.poll.detail),
            state=aside.state,
            not_before=aside.not_before,
            failures=aside.failures,
        )

    def _states(self, results: Sequence[PollResult], effects: Sequence[PollEffect]) -> dict[int, bytes]:
        """Returns the allocator's states of the sites it has just learned from, by row."""
        rows = [i for i, effect in enumerate(effects) if effect.poll.outcome.informative]
        if not rows:
            return {}
        states = self._scheduler.allocator.site_state(np.array([results[i].slot for i in rows], np.int64))
        return {i: state.tobytes() for i, state in zip(rows, states, strict=True)}


def _is_evidence(result: PollResult, effect: PollEffect, *, counts_items: bool) -> bool:
    """Returns whether the poll is evidence on its site's changes, for an allocator that counts items or does not."""
    evidence = None if result.detection is None else result.detection.evidence
    if evidence is None or effect.poll.elapsed is not None or evidence.age is not None:
        return evidence is not None
    return counts_items and evidence.span is not None
