"""What other packages use of `pollerd.daemon`; they import it from there."""

from pollerd.daemon.clock import SteadyClock
from pollerd.daemon.collection import CollectionView
from pollerd.daemon.control import OBJECTIVES, Control
from pollerd.daemon.daemon import Daemon
from pollerd.daemon.gate import BudgetGate
from pollerd.daemon.settings import BUDGET_MAX, BUDGET_MIN, DaemonSettings
from pollerd.daemon.storage_health import StorageHealth
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
    "StorageHealth",
]
