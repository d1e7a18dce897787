"""Partitions of hosts, and how they are shared out."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pollerd.partitions import ROLE_OF_UNIT, NodeRole, partition_of, quota, registrable_domain, to_release, to_take


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


@given(st.dictionaries(st.integers(1, 50), st.integers(0, 80), min_size=1, max_size=12), st.integers(1, 200))
def test_quotas_add_up_and_differ_by_one_at_most(held: dict[int, int], units: int) -> None:
    quotas = {node: quota(held, node, units) for node in held}
    assert sum(quotas.values()) == units
    assert max(quotas.values()) - min(quotas.values()) <= 1


@given(st.integers(1, 64), st.lists(st.booleans(), min_size=1, max_size=12), st.integers(0, 99))
def test_nodes_that_come_and_go_even_out_and_few_units_move(units: int, comes: list[bool], seed: int) -> None:
    """Nodes act one after the other on the same table, as the locks make them."""
    rng, holders, nodes = random.Random(seed), dict[int, int](), [1]

    def settle() -> int:
        moved = 0
        for _ in range(3):
            for node in rng.sample(nodes, len(nodes)):
                counts = {one: sum(its == one for its in holders.values()) for one in nodes}
                mine = [unit for unit, its in holders.items() if its == node]
                share = quota(counts, node, units)
                for unit in to_release(mine, share):
                    del holders[unit]
                free = [unit for unit in range(units) if unit not in holders]
                for unit in to_take(free, node, share - len(mine)) if len(mine) < share else []:
                    holders[unit] = node
                    moved += 1
        return moved

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
        assert settle() <= most
        counts = Counter(holders.values())
        assert sum(counts.values()) == units
        assert max(counts[node] for node in nodes) - min(counts[node] for node in nodes) <= 1


def test_units_of_roles_are_below_those_of_partitions() -> None:
    assert sorted(ROLE_OF_UNIT) == list(range(-len(NodeRole), 0))
    assert {ROLE_OF_UNIT[role.unit] for role in NodeRole} == set(NodeRole)
