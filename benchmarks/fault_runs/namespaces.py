"""A network namespace for each node: one line to the pages, another to the database, which can be cut."""

from __future__ import annotations

import subprocess
from pathlib import Path

PAGES = "10.78"
"""The first half of the addresses of all hosts with pages: all of them are this machine."""


def ip(*arguments: str, check: bool = True) -> None:
    """Runs `ip`."""
    subprocess.run(["ip", *arguments], check=check, capture_output=True, text=True)


class Namespace:
    """The namespace of node n, 1 to 99. Its database is at 10.79.n.1, its own API at 10.77.n.2."""

    def __init__(self, n: int) -> None:
        self.n, self.name = n, f"pollerd{n}"
        self.database, self.address, self.source = f"10.79.{n}.1", f"10.77.{n}.2", f"10.77.{n}.2"

    def make(self) -> None:
        """Makes it, with both lines."""
        self.remove()
        ip("netns", "add", self.name)
        for line, net in (("w", "10.77"), ("d", "10.79")):
            here, there = f"pd{line}{self.n}", f"pd{line}"
            ip("link", "add", here, "type", "veth", "peer", "name", there, "netns", self.name)
            ip("addr", "add", f"{net}.{self.n}.1/30", "dev", here)
            ip("link", "set", here, "up")
            ip("-n", self.name, "addr", "add", f"{net}.{self.n}.2/30", "dev", there)
            ip("-n", self.name, "link", "set", there, "up")
        self.forward()
        ip("-n", self.name, "link", "set", "lo", "up")
        ip("-n", self.name, "route", "add", "default", "via", f"10.77.{self.n}.1")

    def forward(self) -> bool:
        """Lets nodes reach each other through this machine; whether something had ended that."""
        setting = Path(f"/proc/sys/net/ipv4/conf/pdw{self.n}/forwarding")
        ended = setting.read_text().strip() == "0"
        if ended:
            setting.write_text("1")
        return ended

    def cut(self) -> None:
        """Nothing comes through to the database and back any more; nobody is told."""
        ip("link", "set", f"pdd{self.n}", "down")

    def mend(self) -> None:
        """Ends a cut."""
        ip("link", "set", f"pdd{self.n}", "up")

    def remove(self) -> None:
        """Removes it, if it is there."""
        ip("netns", "del", self.name, check=False)
        for line in "wd":
            ip("link", "del", f"pd{line}{self.n}", check=False)

    def command(self, *arguments: str) -> list[str]:
        """A command to be run in it, after the pages' server: what is late there would look like a fault."""
        return ["nice", "-n", "15", "ip", "netns", "exec", self.name, *arguments]


def make_hosts() -> None:
    """All addresses of `PAGES` lead to this machine."""
    ip("route", "add", "local", f"{PAGES}.0.0/16", "dev", "lo", check=False)


def remove_hosts() -> None:
    """Ends `make_hosts`."""
    ip("route", "del", "local", f"{PAGES}.0.0/16", "dev", "lo", check=False)
