"""The spot checks of docs/: a few tables are run again."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def checked(docs: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """What the script says of a folder of pages."""
    command = [sys.executable, str(ROOT / "benchmarks/check_tables.py"), "--jobs", "1", "--docs", str(docs), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_spot_checks_agree() -> None:
    done = checked(ROOT / "docs", "--spot")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "3 agrees"), done.stdout + done.stderr


def test_an_altered_page_does_not_agree_with_a_run(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    page = tmp_path / "docs/papers/htraa.md"
    text = page.read_text()
    assert text.count(".757, 2.045, 2.272") == 1
    page.write_text(text.replace(".757, 2.045, 2.272", ".757, 2.054, 2.272"))
    done = checked(tmp_path / "docs", "htraa-updates")
    assert done.returncode == 1
    assert "page 2.054, now 2.045" in done.stdout
