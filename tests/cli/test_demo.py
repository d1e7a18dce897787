"""`pollerd demo` as a user starts it."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pollerd.cli.demo.demo import demo
from pollerd.errors import InvalidValueError

COMMAND = [sys.executable, "-W", "error", "-m", "pollerd", "demo"]
SMALL = ["--budget", "40", "--sites", "16", "--seed", "1"]


def environment(folder: Path) -> dict[str, str]:
    """The demo must neither read the user's settings nor leave anything behind."""
    return {**os.environ, "TMPDIR": str(folder), "POLLERD_BUDGET": "0.01", "POLLERD_DATABASE": "nonsense"}


def test_it_finds_changes_ends_by_itself_and_leaves_nothing_behind(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "--for", "6", *SMALL],
        capture_output=True, text=True, timeout=180, cwd=tmp_path, env=environment(tmp_path), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    counts = re.search(r"(\d+) truly happened; (\d+) polls found one", done.stdout)
    assert counts is not None, done.stdout
    happened, found = int(counts[1]), int(counts[2])
    assert 0 < found <= happened
    polls = re.search(r"polls +(\d+) in 6 s, of 16 sites, budget 40/s", done.stdout)
    assert polls is not None, done.stdout
    assert 16 < int(polls[1]) <= 241
    assert "denied blocked" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_what_came_out_as_json(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "--for", "4", "--json", *SMALL],
        capture_output=True, text=True, timeout=180, cwd=tmp_path, env=environment(tmp_path), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("a small changing web on loopback")
    found = json.loads(done.stdout)
    assert found["budget"] == 40
    assert 0 < found["polls_that_found_one"] <= found["changes_happened"]
    assert len(found["sites"]) == 16
    assert sum(site["polls"] for site in found["sites"]) > 16
    always = next(site for site in found["sites"] if site["kind"] == "always")
    assert always["true_rate"] is None
    assert "active" in {site["state"] for site in found["sites"]}


def test_ctrl_c_ends_it_with_the_summary(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "--for", "600", *SMALL],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=environment(tmp_path),
    ) as running:  # fmt: skip
        assert running.stdout is not None
        while "polls (" not in running.stdout.readline():
            assert running.poll() is None
        running.send_signal(signal.SIGINT)
        rest, errors = running.communicate(timeout=180)
    assert (running.returncode, errors) == (0, "")
    assert "truly happened" in rest
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "field"),
    [({"seconds": 0.5}, "for"), ({"seconds": math.nan}, "for"), ({"sites": 3}, "sites"), ({"budget": 0.0}, "budget")],
)
def test_values_that_cannot_be_used_are_named(given: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        demo(**given)
    assert caught.value.field == field
