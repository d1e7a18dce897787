"""The replay server: a program DIR/replay_server.py that serves true versions of pages in accelerated time.

What is used of it: the options --host, --port, --speed, --loop, --log-size, --noise, --noise-validators; the calls
GET /__pages (id, path, content_type), POST /__reset, GET /__log (wall time, virtual time, id, method, status, version,
bytes) and GET /__truth (pages.ID.changes: seq, wall, semantic).
"""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peer_runs.processes import free_port, started, until
from peer_runs.reports import Page, PageChange, Request

_PAGES_PER_NETWORK = 250


@dataclass
class Setting:
    """How the pages are replayed. speed: seconds of the pages in a second. noise, validators: as the server has it."""

    speed: float
    noise: str = "none"
    validators: str = "body"


class Replay:
    """A running server."""

    def __init__(self, port: int) -> None:
        self._port = port

    def pages(self) -> list[Page]:
        """Returns its pages, each on a host of its own: an address of 127.2.0.0/16."""
        return [
            Page(each["id"], self._url(number, each["path"]), each["content_type"].split(";")[0])
            for number, each in enumerate(self._call("/__pages"))
        ]

    def _url(self, number: int, path: str) -> str:
        network, host = divmod(number, _PAGES_PER_NETWORK)
        return f"http://127.2.{network}.{host + 1}:{self._port}{path}"

    def begin(self) -> None:
        """Sets the clock of the pages back and empties the log."""
        self._call("/__reset", b"")

    def requests(self) -> list[Request]:
        """Returns the requests for pages since the beginning."""
        return read_log(self._call("/__log"))

    def changes(self) -> list[PageChange]:
        """Returns the changes since the beginning."""
        return read_truth(self._call("/__truth"))

    def _call(self, path: str, data: bytes | None = None) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", data, timeout=60) as answer:
            return json.load(answer)


def read_log(lines: Sequence[Sequence[Any]]) -> list[Request]:
    """Returns the answers 200 and 304 of a log."""
    return [Request(page, at, seq) for at, _, page, _, status, seq, _ in lines if status in (200, 304)]


def read_truth(told: dict[str, Any]) -> list[PageChange]:
    """Returns the changes of all pages."""
    return [
        PageChange(page, change["wall"], change["seq"], change["semantic"])
        for page, found in told["pages"].items()
        for change in found["changes"]
    ]


@contextmanager
def served(traces: Path, setting: Setting, folder: Path) -> Iterator[Replay]:
    """Runs the server for the block; its output goes to the folder."""
    port = free_port()
    command = [sys.executable, str(traces / "replay_server.py"), "--host", "0.0.0.0", "--port", str(port), "--loop"]
    command += ["--speed", str(setting.speed), "--log-size", "1000000"]
    command += ["--noise", setting.noise, "--noise-validators", setting.validators]
    with started(command, folder / "server.log"):
        server = Replay(port)
        until(server.pages, f"{traces / 'replay_server.py'}: no answer; see {folder / 'server.log'}")
        yield server
