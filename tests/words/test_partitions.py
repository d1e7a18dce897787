"""Partitions of hosts, and how they are shared out."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pollerd.partitions import (
    ROLE_OF_UNIT,
    UNEVEN_SHARE,
    NodeRole,
    partition_of,
    registrable_domain,
    shared_out,
    weight_of,
)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("example.com:443", "example.com"),
        ("a.b.example.com:8080", "example.com"),
        ("www.example.co.uk:443", "example.co.uk"),
        ("one.github.io:443", "one.github.io"),
        ("two.github.io:443", "two.github.io"),
        ("WWW.Example.COM.:80", "example.com"),
        ("localhost:80", "localhost"),
        ("co.uk:443", "co.uk"),
        ("127.0.0.1:80", "127.0.0.1"),
        ("[::1]:80", "[::1]"),
    ],
)
def test_the_registered_domain_of_a_host(host: str, expected: str) -> None:
    assert registrable_domain(host) == expected


def test_hosts_of_one_owner_share_a_partition_and_owners_spread() -> None:
    assert len({partition_of(f"{name}.example.org:{port}", 64) for name in "abc" for port in (80, 443)}) == 1
    counts = Counter(partition_of(f"site{n}.com:443", 64) for n in range(20_000))
    assert set(counts) == set(range(64))
    assert max(counts.values()) < 1.3 * min(counts.values()) + 100
    # Stored partitions stay what they are: another hash would move every host.
    assert [partition_of(f"{name}:443", 64) for name in ("example.com", "python.org", "127.0.0.1")] == [51, 7, 12]


@given(
    st.integers(1, 64),
    st.lists(st.booleans(), min_size=1, max_size=12),
    st.integers(0, 99),
    st.sampled_from([0, 30, 5_000]),
)
def test_nodes_that_come_and_go_even_out_and_few_units_move(
    units: int, comes: list[bool], seed: int, largest: int
) -> None:
    """Nodes act one after the other on the same table, as the locks make them."""
    rng, holders, nodes = random.Random(seed), dict[int, int](), [1]
    weights = {unit: weight_of(rng.randint(0, largest)) for unit in range(units)}

    def settle() -> int:
        moved = 0
        for _ in range(3):
            for node in rng.sample(nodes, len(nodes)):
                wanted = shared_out(weights, holders, nodes, UNEVEN_SHARE)
                for unit in [unit for unit, its in holders.items() if its == node and wanted[unit] != node]:
                    del holders[unit]
                for unit in [unit for unit, its in wanted.items() if its == node and unit not in holders]:
                    holders[unit] = node
                    moved += 1
        return moved

    def load(node: int) -> float:
        return sum(weights[unit] for unit, its in holders.items() if its == node)

    assert settle() == units
    for number, join in enumerate(comes, 2):
        before = len(nodes)
        if join or before == 1:
            nodes.append(number)
            most = units // len(nodes) + 1
        else:
            gone = nodes.pop(rng.randrange(before))
            lost = [unit for unit, its in holders.items() if its == gone]
            for unit in lost:
                del holders[unit]
            most = len(lost)
        moved = settle()
        assert set(holders) == set(weights), "nobody's"
        assert not settle(), "it comes to rest"
        loads = [load(node) for node in nodes]
        assert max(loads) - min(loads) <= max(weights.values()) + UNEVEN_SHARE * sum(loads) / len(loads)
        if not largest:
            assert moved <= most
            assert max(loads) - min(loads) <= weight_of(0)


def test_the_lighter_node_gets_the_sites_and_not_the_number_of_partitions_counts() -> None:
    sites = [100_000, *[1_000] * 100, *[0] * 9]
    weights = {unit: weight_of(number) for unit, number in enumerate(sites)}
    wanted = shared_out(weights, {}, [1, 2], UNEVEN_SHARE)
    of_one = {node: sum(sites[unit] for unit, its in wanted.items() if its == node) for node in (1, 2)}
    assert abs(of_one[1] - of_one[2]) <= 0.06 * 100_000
    assert len([unit for unit, its in wanted.items() if its == wanted[0]]) <= 10


def test_who_is_not_among_the_nodes_keeps_nothing_and_without_nodes_nobody_gets_anything() -> None:
    weights = dict.fromkeys(range(6), 1.0)
    assert shared_out(weights, dict.fromkeys(range(6), 3), [1, 2]) == {0: 1, 1: 2, 2: 1, 3: 2, 4: 1, 5: 2}
    assert shared_out(weights, {0: 1}, []) == {}


def test_units_of_roles_are_below_those_of_partitions() -> None:
    assert sorted(ROLE_OF_UNIT) == list(range(-len(NodeRole), 0))
    assert {ROLE_OF_UNIT[role.unit] for role in NodeRole} == set(NodeRole)
