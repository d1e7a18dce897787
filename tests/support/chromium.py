"""Where tests find a Chromium, and what is left of one."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest


def chromium_path() -> str:
    """The path of an installed Chromium (TEST_CHROMIUM). Skips the test where there is none; under CI that fails."""
    names = (os.environ.get("TEST_CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome")
    found = next((path for name in names if name and (path := shutil.which(name))), None)
    if found is not None:
        return found
    if os.environ.get("CI") == "true":
        pytest.fail("Chromium is needed in CI; .ci/run installs it")
    pytest.skip("no Chromium is installed")


def processes_with(text: str) -> list[int]:
    """Pids of living processes whose command line holds the text."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue  # it has ended
        if text.encode() in command and state != "Z":
            found.append(int(entry.name))
    return found


def children_with(text: str) -> list[int]:
    """Pids of this process's own children whose command line holds the text."""
    return [pid for pid in processes_with(text) if _parent(pid) == os.getpid()]


def _parent(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None  # it has ended


def browser_folders() -> set[Path]:
    """Folders of browsers that pollerd and Playwright made."""
    root = Path(tempfile.gettempdir())
    return {*root.glob("pollerd-browser-*"), *root.glob("playwright*")}
