"""To which hosts of other partitions requests may be written."""

from __future__ import annotations

import math
import time

from pollerd.daemon.nodes.loans import HostPermits


def test_a_lent_host_may_be_asked_until_its_time_is_over() -> None:
    permits = HostPermits()
    assert permits("a:80"), "it is nobody else's"
    assert not permits.lent("a:80")
    permits.lend("a:80", time.monotonic() + 100.0)
    assert permits("a:80")
    assert permits.lent("a:80")
    permits.lend("a:80", time.monotonic() - 0.001)
    assert not permits("a:80")
    assert not permits.lent("a:80")
    permits.give_back("a:80")
    assert permits("a:80")


def test_hosts_of_a_lost_partition_may_be_asked_when_it_is_held_again_or_they_are_lent() -> None:
    permits = HostPermits()
    permits.lose("a:80", 1)
    permits.lose("b:80", 2)
    assert not permits("a:80")
    permits.regain(2)
    assert (permits("a:80"), permits("b:80")) == (False, True)
    permits.lend("a:80", math.inf)
    assert permits("a:80")
