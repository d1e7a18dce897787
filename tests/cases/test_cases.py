"""Odd pages as real servers send them, polled by one daemon: all are read right but those in `wrong.txt`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import check
import pytest
import serving
import web  # noqa: F401  (registers the cases)

from tests.support.ports import free_port

LIST = check.HERE / "wrong.txt"
WRONG = {line for line in LIST.read_text().splitlines() if line and not line.startswith("#")}


def three_ports() -> int:
    """The first of three in a row that are free, and stay so: no connection is given one of them."""
    ports = [free_port() for _ in range(3)]
    while ports[2] != ports[0] + 2:
        ports = [*ports[1:], free_port()]
    return ports[0]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """How each case came out, by name."""
    out = tmp_path_factory.mktemp("cases") / "results.json"
    command = [sys.executable, check.__file__, str(Path(sys.executable).parent), "--json", str(out)]
    command += ["--port", str(three_ports())]
    tried = subprocess.run(command, capture_output=True, text=True, check=False)
    assert tried.returncode in (0, 1), tried.stderr
    return {result["name"]: result for result in json.loads(out.read_text())}


@pytest.mark.timeout(600)  # the first waits for all
@pytest.mark.parametrize("name", serving.CASES)
def test_an_odd_page_is_read_right(name: str, results: dict[str, dict[str, Any]]) -> None:
    result = results[name]
    if name in WRONG:
        assert not result["ok"], f"{name} is right now: take it from {LIST}"
    else:
        assert result["ok"], f"{result['about']} Expected: {result['expected']}; seen: {result['seen']}"


def test_the_list_names_cases() -> None:
    assert serving.CASES.keys() >= WRONG
