"""`GET /cluster` and `pollerd nodes`: the nodes of the database, and draining one."""

from __future__ import annotations

import json
from dataclasses import replace
from unittest.mock import AsyncMock

import pytest

from pollerd.daemon.control.cluster import ALONE, with_nodes
from pollerd.daemon.views import NodeView
from pollerd.errors import ConflictError
from pollerd.partitions import NodeRole
from pollerd.storage.grants import BudgetStatus, GrantRow
from pollerd.storage.node_values import LivingNode, LockTable
from tests.api.conftest import Api
from tests.support.process import command


async def test_a_daemon_that_runs_alone_has_no_nodes(api: Api) -> None:
    reply = await api("GET", "/cluster")
    assert (reply.status, reply.json) == (
        200,
        {
            "partitions": 0,
            "unheld": 0,
            "budget": None,
            "in_force": None,
            "nodes_wanted": 0,
            "connections": 0,
            "max_connections": 0,
            "nodes": [],
        },
    )


def test_lock_table_rows_and_grants_are_put_together() -> None:
    table = LockTable(frozenset({3, 5}), {0: 3, 1: 3, 2: 5, NodeRole.JOBS.unit: 5}, sites={0: 7, 1: 2, 3: 9})
    living = [
        LivingNode(id=3, name="a", version="1", started_at=1.0),
        LivingNode(id=5, name="b", version="1", started_at=2.0, drained=True),
    ]
    grant = GrantRow("3", 4.0, 3.0, 5.0, 0.25, 1.0, None, 9.0, None, 3.5, 2.5, -0.25)
    whole = replace(ALONE, partitions=4)
    view = with_nodes(whole, table, living, BudgetStatus(6.0, 6.5, (grant,), 11.0), {"a": 2}, 5)
    assert (view.partitions, view.unheld, view.budget, view.in_force) == (4, 1, 6.0, 6.5)
    a, b = view.nodes
    assert (a.partitions, a.roles, a.here, a.grant, a.target, a.price) == (2, (), False, 4.0, 5.0, 0.25)
    assert (b.partitions, b.roles, b.here, b.grant) == (1, ("jobs",), True, None)
    assert [(one.sites, one.drained, one.starts) for one in (a, b)] == [(9, False, 2), (0, True, 0)]
    assert (a.spent, a.silent_seconds, a.clock_ahead) == (2.5, 2.0, -0.25)
    assert (b.spent, b.silent_seconds, b.clock_ahead) == (None, None, None)


async def test_a_node_is_drained_over_rest_and_by_command(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = await api("PATCH", "/cluster/nodes/a", {"drained": True})
    assert (alone.status, "this daemon runs alone" in alone.json["detail"]) == (409, True)
    node = NodeView(
        id=1,
        name="a b",
        version="1",
        started_at=1.0,
        here=True,
        drained=True,
        partitions=3,
        sites=40,
        roles=(),
        grant=None,
        target=None,
        price=None,
        spent=None,
        silent_seconds=None,
        clock_ahead=None,
        starts=1,
    )
    view = replace(ALONE, partitions=64, unheld=2, budget=9.0, in_force=9.0, nodes=(node,))
    drain = AsyncMock(return_value=view)
    monkeypatch.setattr(api.control.cluster, "drain", drain)
    monkeypatch.setattr(api.control.cluster, "view", AsyncMock(return_value=view))
    reply = await api("PATCH", "/cluster/nodes/a%20b", {"drained": True})
    assert (reply.status, reply.json["nodes"][0]["drained"]) == (200, True)
    assert (await api("PATCH", "/cluster/nodes/a", {})).status == 422
    url = api.root.rstrip("/")
    told = await command("nodes", "drain", "a b", "--url", url)
    assert (told.code, told.out) == (0, "a b is drained: it hands over 3 partitions\n")
    told = await command("nodes", "undrain", "a b", "--url", url, "--json")
    assert (told.code, json.loads(told.out)) == (0, {"name": "a b", "drained": False})
    assert [call.args for call in drain.await_args_list] == [("a b", True), ("a b", True), ("a b", False)]
    for arguments in (["nodes"], ["nodes", "list"]):
        listed = await command(*arguments, "--url", url)
        assert (listed.code, "2 of 64 partitions have no node" in listed.err) == (0, True)
        assert [line.split()[:4] for line in listed.out.splitlines()] == [
            ["name", "partitions", "sites", "drained"],
            ["a", "b", "3", "40"],
        ]
    drain.side_effect = ConflictError("node a is the only one that polls: start another node first")
    refused = await command("nodes", "drain", "a", "--url", url)
    assert (refused.code, refused.err) == (2, "pollerd: node a is the only one that polls: start another node first\n")
