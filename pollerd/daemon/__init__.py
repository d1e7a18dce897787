"""The live loop: chooses, polls, detects, learns, commits."""

from pollerd.daemon.clock import SteadyClock
from pollerd.daemon.collection import CollectionView
from pollerd.daemon.control import OBJECTIVES, Control
from pollerd.daemon.daemon import Daemon
from pollerd.daemon.gate import BUDGET_MAX, BUDGET_MIN, BudgetGate
from pollerd.daemon.settings import DaemonSettings
from pollerd.daemon.views import AllocationView, Explanation, Live, Status

__all__ = [
    "BUDGET_MAX",
    "BUDGET_MIN",
    "OBJECTIVES",
    "AllocationView",
    "BudgetGate",
    "CollectionView",
    "Control",
    "Daemon",
    "DaemonSettings",
    "Explanation",
    "Live",
    "Status",
    "SteadyClock",
]
