"""Ports to listen on that nobody else is given meanwhile.

A port that was bound for a look and let go again is one of those that the kernel gives to connections that are dialled:
one of another test may sit there when a server is started at it, or started again. And of ports drawn at random two
that are asked for before either is bound may be the same.
"""

from __future__ import annotations

import itertools
import os
import random
import socket

_LOWEST, _NUMBER, _PROCESSES = 12_000, 2_000, 8
"""Below those that Linux gives by itself (net.ipv4.ip_local_port_range); so many for each process that runs tests."""
_numbers = itertools.count(random.randrange(_NUMBER))


def free_port() -> int:
    """A TCP port that is free on all addresses, and that no other process of this run of the tests takes.

    It is given again after all others of this process.
    """
    process = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _PROCESSES
    while True:
        port = _LOWEST + process * _NUMBER + next(_numbers) % _NUMBER
        with socket.socket() as probe:
            try:
                probe.bind(("0.0.0.0", port))
            except OSError:
                continue
            return port
