"""Ports to listen on that nobody else is given meanwhile.

A port that was bound for a look and let go again is one of those that the kernel gives to connections that are dialled:
one of another test may sit there when a server is started at it, or started again.
"""

from __future__ import annotations

import os
import random
import socket

_LOWEST, _NUMBER, _PROCESSES = 12_000, 2_000, 8
"""Below those that Linux gives by itself (net.ipv4.ip_local_port_range); so many for each process that runs tests."""
_chooser = random.Random()


def free_port() -> int:
    """A TCP port that is free on all addresses, and that no other process of this run of the tests takes."""
    process = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _PROCESSES
    while True:
        port = _LOWEST + process * _NUMBER + _chooser.randrange(_NUMBER)
        with socket.socket() as probe:
            try:
                probe.bind(("0.0.0.0", port))
            except OSError:
                continue
            return port
