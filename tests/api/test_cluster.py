"""`GET /cluster`: the nodes of the database."""

from __future__ import annotations

from pollerd.daemon.nodes.views import view_of
from pollerd.partitions import NodeRole
from pollerd.storage.grants import BudgetStatus, GrantRow
from pollerd.storage.node_values import LivingNode, LockTable
from tests.api.conftest import Api


async def test_a_daemon_that_runs_alone_has_no_nodes(api: Api) -> None:
    reply = await api("GET", "/cluster")
    assert (reply.status, reply.json) == (
        200,
        {"partitions": 0, "unheld": 0, "budget": None, "in_force": None, "nodes": []},
    )


def test_lock_table_rows_and_grants_are_put_together() -> None:
    table = LockTable(frozenset({3, 5}), {0: 3, 1: 3, 2: 5, NodeRole.JOBS.unit: 5})
    living = [
        LivingNode(id=3, name="a", version="1", started_at=1.0),
        LivingNode(id=5, name="b", version="1", started_at=2.0),
    ]
    grant = GrantRow("3", 4.0, 3.0, 5.0, 0.25, 1.0, None, 9.0, None)
    view = view_of(table, living, BudgetStatus(6.0, 6.5, (grant,)), 4, 5)
    assert (view.partitions, view.unheld, view.budget, view.in_force) == (4, 1, 6.0, 6.5)
    a, b = view.nodes
    assert (a.partitions, a.roles, a.here, a.grant, a.target, a.price) == (2, (), False, 4.0, 5.0, 0.25)
    assert (b.partitions, b.roles, b.here, b.grant) == (1, ("jobs",), True, None)
