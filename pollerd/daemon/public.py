"""The public names of `pollerd.daemon`; other packages import them from there."""

from pollerd.allocation.registered import OBJECTIVES
from pollerd.daemon.control.control import Control
from pollerd.daemon.control.sources import SourceControl
from pollerd.daemon.crawler.report import CollectionView
from pollerd.daemon.daemon import Daemon
from pollerd.daemon.polling.budget_gate import BudgetGate
from pollerd.daemon.process.clock import SteadyClock
from pollerd.daemon.state.settings import BUDGET_MAX, BUDGET_MIN, DaemonSettings
from pollerd.daemon.state.storage_health import StorageHealth
from pollerd.daemon.state.views import AllocationView, ExplanationView, LiveSite, Status

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
    "ExplanationView",
    "LiveSite",
    "SourceControl",
    "Status",
    "SteadyClock",
    "StorageHealth",
]
