"""Yields of the whole budget, over all nodes: expected now, and minute by minute in the past."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

import structlog

from pollerd.allocation.objectives import ComparedPolicies, ExpectedTimeliness
from pollerd.daemon.explain import ScheduleExplainer
from pollerd.daemon.views import (
    AllocationView,
    BenefitPointView,
    CalibrationView,
    DecileView,
    ShadowState,
    ShadowView,
    SignalYieldView,
)
from pollerd.errors import DatabaseUnavailableError, HolderUnavailableError
from pollerd.scheduling.capacity import PollLimit
from pollerd.storage.grants import SharedAllocation
from pollerd.storage.history import HistoryStore, YieldMinute
from pollerd.storage.node_values import LivingNode

_SHADOW_STATES: tuple[ShadowState, ...] = ("dropped", "learning", "following")
"""A shadow of several nodes is in the first of these in which it is at any."""


def summed(views: Sequence[AllocationView], budget: float) -> AllocationView:
    """Returns the view of all nodes. views: one of each, at least one, first that of the node that is asked.

    budget: of all nodes, polls per second. `binding` is what binds the nodes with most sites. The benefit curve is the
    best division of each budget over the nodes, as far as their own curves reach; what one more poll per second finds
    is at least what it finds at the node that gains most.
    """
    first = views[0]
    curve = _divided_best(views, budget)
    gains = [one.one_more_poll_per_second_finds_per_hour for one in views]
    more = None if not curve or None in gains else max(gain for gain in gains if gain is not None)
    voted = Counter[PollLimit]()
    for one in views:
        voted[one.binding] += one.sites
    binding = voted.most_common(1)[0][0]
    largest = max((one for one in views if one.binding == binding), key=lambda one: one.sites)
    return replace(
        first,
        budget=budget,
        utilization=sum(one.utilization * one.budget for one in views) / budget,
        spendable=min(sum(one.spendable for one in views), budget),
        binding=binding,
        binding_in_words=largest.binding_in_words,
        price=max(one.price for one in views),
        expected_detections_per_hour_as_scheduled=_total(views, lambda v: v.expected_detections_per_hour_as_scheduled),
        expected_detections_per_hour_uniform=_total(views, lambda v: v.expected_detections_per_hour_uniform),
        expected_detections_per_hour_best=_total(views, lambda v: v.expected_detections_per_hour_best),
        sites=sum(one.sites for one in views),
        late_sites=sum(one.late_sites for one in views),
        noisy_sites=sum(one.noisy_sites for one in views),
        proofs_waiting=sum(one.proofs_waiting for one in views),
        maximum_intervals_feasible=all(one.maximum_intervals_feasible for one in views),
        calibration=_calibration([one.calibration for one in views]),
        one_more_poll_per_second_finds_per_hour=more,
        benefit_curve=curve,
        shadows=tuple(_shadow(shadow.allocator, views) for shadow in first.shadows),
        signals=_signals([(one.budget, one.signals) for one in views if one.signals is not None]),
        timeliness=_timeliness([one.timeliness for one in views if one.timeliness is not None]),
    )


def _total(views: Sequence[AllocationView], of: Callable[[AllocationView], float]) -> float:
    """Returns the sum over nodes with sites: one without any has no yield, which is not known (nan) there."""
    return sum(of(one) for one in views if one.sites) if any(one.sites for one in views) else math.nan


def _divided_best(views: Sequence[AllocationView], budget: float) -> tuple[BenefitPointView, ...]:
    """Returns the yield of other budgets where each is divided over the nodes so that it brings most.

    A yield is concave in the budget, so its steps are taken in order of what a poll brings in them. Empty where a node
    with sites has no curve.
    """
    curves = [one.benefit_curve for one in views if one.sites]
    if not curves or not all(curves):
        return ()
    steps = []
    for points in curves:
        before, found = 0.0, 0.0
        for point in points:
            width, gain = point.budget - before, point.expected_detections_per_hour - found
            if width > 0:
                steps.append((gain / width, width))
            before, found = point.budget, point.expected_detections_per_hour
    steps.sort(reverse=True)
    factors = [point.budget / one.budget for one in views if one.sites for point in one.benefit_curve]
    wanted = sorted({round(factor, 6) for factor in factors})
    return tuple(BenefitPointView(factor * budget, _yield_of(steps, factor * budget)) for factor in wanted)


def _yield_of(steps: Sequence[tuple[float, float]], budget: float) -> float:
    """Returns what the best steps (gain of a poll, width), in order, bring within a budget."""
    found, left = 0.0, budget
    for gain, width in steps:
        found += gain * min(width, left)
        left -= width
        if left <= 0:
            break
    return found


def _calibration(views: Sequence[CalibrationView]) -> CalibrationView:
    deciles = tuple(_decile(same) for same in zip(*(one.deciles for one in views), strict=True))
    polls = sum(one.polls for one in deciles)
    apart = sum(one.polls * abs((one.found or 0.0) - (one.predicted or 0.0)) for one in deciles)
    return CalibrationView(polls=polls, expected_error=apart / polls if polls else None, deciles=deciles)


def _decile(same: Sequence[DecileView]) -> DecileView:
    polls = sum(one.polls for one in same)
    if not polls:
        return DecileView(0, None, None)
    predicted = sum(one.polls * (one.predicted or 0.0) for one in same) / polls
    return DecileView(polls, predicted, sum(one.polls * (one.found or 0.0) for one in same) / polls)


def _shadow(name: str, views: Sequence[AllocationView]) -> ShadowView:
    """Returns a shadow of all nodes; of one that a node does not run yet nothing is known in sum."""
    same = [shadow for one in views for shadow in one.shadows if shadow.allocator == name]
    state = min((one.state for one in same), key=_SHADOW_STATES.index)
    expected = [one.expected_detections_per_hour for one in same]
    known = [value for value in expected if value is not None]
    reason = next((one.reason for one in same if one.reason is not None), None)
    return ShadowView(name, state, sum(known) if len(known) == len(views) else None, reason)


def _signals(nodes: Sequence[tuple[float, SignalYieldView]]) -> SignalYieldView | None:
    """Returns what signals brought at all nodes; each is given with its budget. `sources` are those of all already."""
    if not nodes:
        return None
    views = [view for _, view in nodes]
    saved = [view.budget_saved for view in views]
    spent = sum(budget for budget, _ in nodes)
    instead = [
        budget / (1.0 - view.budget_saved)
        for budget, view in nodes
        if view.budget_saved is not None and view.budget_saved < 1.0
    ]
    return SignalYieldView(
        sources=max(view.sources for view in views),
        polls=sum(view.polls for view in views),
        found=sum(view.found for view in views),
        polls_after_signal=sum(view.polls_after_signal for view in views),
        found_after_signal=sum(view.found_after_signal for view in views),
        budget_saved=1.0 - spent / sum(instead) if len(instead) == len(saved) and sum(instead) > 0 else None,
    )


def _timeliness(views: Sequence[ExpectedTimeliness]) -> ExpectedTimeliness | None:
    total = sum(one.changes for one in views)
    if not total > 0:
        return None

    def mean(of: Callable[[ExpectedTimeliness], ComparedPolicies]) -> ComparedPolicies:
        def part(way: str) -> float | None:
            values = [(one.changes, getattr(of(one), way)) for one in views]
            return None if any(value is None for _, value in values) else sum(n * v for n, v in values) / total

        return ComparedPolicies(part("as_scheduled"), part("uniform"), part("best"))

    return ExpectedTimeliness(mean(lambda one: one.delay), mean(lambda one: one.in_time), total)


# The log of expected changes, kept minute by minute: a change of budget must not alter the past.

_MINUTE = 60.0
_HOUR = 3_600.0


class YieldLog:
    """Writes a row a minute, for the web pages; a minute that cannot be written is left out."""

    def __init__(self, *, explainer: ScheduleExplainer, history: HistoryStore, clock: Callable[[], float]) -> None:
        self._explainer, self._history, self._clock = explainer, history, clock
        self._log = structlog.get_logger("pollerd.yields")

    async def run(self) -> None:
        """Writes until cancelled."""
        began = time.monotonic()
        while True:
            await asyncio.sleep(_MINUTE - self._clock() % _MINUTE)
            ended = time.monotonic()
            try:
                await self.note(min(ended - began, _MINUTE))
            except DatabaseUnavailableError as error:
                self._log.warning("yield_not_noted", reason=str(error))
            began = ended

    async def note(self, seconds: float) -> None:
        """Writes what was expected of the last `seconds`, which end now."""
        view, share = self._explainer.allocation(), seconds / _HOUR
        expected = (
            view.expected_detections_per_hour_as_scheduled,
            view.expected_detections_per_hour_uniform,
            view.expected_detections_per_hour_best,
        )
        scheduled, uniform, best = ((value or 0.0) * share for value in expected)
        await self._history.add_yield(YieldMinute(self._clock() - seconds / 2, seconds, scheduled, uniform, best))


# The view of the whole budget: this node, and the others, which are asked.


class AllocationReporter(Protocol):
    """Asks the other nodes; `daemon.nodes.calls.NodeClient`."""

    async def others(self) -> list[LivingNode]:
        """Returns the other nodes. Raises DatabaseUnavailableError."""

    async def allocation(self, node: LivingNode) -> AllocationView:
        """Returns what a node's part of the budget brings. Raises HolderUnavailableError."""


class WholeBudget:
    """Shows what the budget brings, over the sites of all nodes."""

    def __init__(
        self, *, explainer: ScheduleExplainer, shared: SharedAllocation | None, nodes: AllocationReporter | None
    ) -> None:
        """shared, nodes: None where the daemon is alone."""
        self.explainer = explainer
        """Of this process's sites."""
        self._shared, self._nodes = shared, nodes
        self._log = structlog.get_logger("pollerd.allocation")

    async def over_budgets(self) -> AllocationView:
        """Returns the yield of the budget, with the benefit curve over other budgets."""
        own = await self.explainer.allocation_over_budgets()
        if self._nodes is None or self._shared is None:
            return own
        try:
            others, row = await self._nodes.others(), await self._shared.stored()
        except DatabaseUnavailableError:
            return replace(own, missing_nodes=None)
        answers = await asyncio.gather(*(self._of(self._nodes, node) for node in others))
        missing = tuple(node.name for node, answer in zip(others, answers, strict=True) if answer is None)
        views = [own, *(answer for answer in answers if answer is not None)]
        budget = sum(one.budget for one in views) if row is None else row.budget
        return replace(summed(views, budget), missing_nodes=missing)

    async def _of(self, nodes: AllocationReporter, node: LivingNode) -> AllocationView | None:
        """Returns what a node's part brings; None: it gave no answer."""
        try:
            return await nodes.allocation(node)
        except HolderUnavailableError as error:
            self._log.info("allocation_of_node_missing", node=node.name, reason=str(error))
            return None
