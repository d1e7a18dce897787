"""Which test files a level runs: what a change reaches by imports."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import levels

ALL = sorted(path.relative_to(levels.ROOT).as_posix() for path in (levels.ROOT / "tests").rglob("test_*.py"))
DAEMON = "tests/app/test_app.py"
PURE = "tests/detection/test_detection_feed.py"
LEARNING = "tests/allocation/test_learning.py"
MIGRATIONS = "tests/storage/test_storage_migrations.py"
EXPERIMENTS = "tests/lab/test_experiments.py"


@pytest.mark.parametrize(
    ("changed", "runs", "left_out"),
    [
        ("pollerd/daemon/commit.py", {DAEMON}, {PURE, LEARNING}),
        ("pollerd/detection/feed.py", {DAEMON, PURE}, {LEARNING}),
        ("pollerd/allocation/whittle/whittle.py", {DAEMON, LEARNING}, {PURE}),
        # The name of a module that is loaded by it, not imported.
        ("pollerd/cli/sites.py", {"tests/api/test_sites_command.py"}, {PURE, LEARNING}),
        ("pollerd/lab/experiments/catalogue.py", {EXPERIMENTS}, {PURE, LEARNING}),
        ("pollerd/web/templates/base.html", {"tests/web/test_pages.py"}, {PURE, LEARNING}),
        ("migrations/versions/0001_first.py", {MIGRATIONS}, {PURE, LEARNING}),
        ("tests/daemon/conftest.py", {"tests/daemon/test_jobs.py"}, {PURE, LEARNING, DAEMON}),
        ("tests/support/origin.py", {DAEMON}, {PURE, LEARNING}),
        ("tests/cases/bodies.py", {"tests/cases/test_cases.py"}, {PURE, LEARNING, DAEMON}),
        ("pollerd/daemon/commit.py", {"tests/cases/test_cases.py"}, {PURE}),
        ("README.md", {"tests/docs/test_documents.py"}, {DAEMON, PURE, LEARNING}),
    ],
)
def test_a_change_reaches_what_imports_it(changed: str, runs: set[str], left_out: set[str]) -> None:
    reached = levels.reached_from([changed])
    assert reached is not None
    assert runs <= reached
    assert not left_out & reached
    assert runs | left_out <= set(ALL), "files of this test are there"


@pytest.mark.parametrize("changed", ["pyproject.toml", "constraints-dev.txt", "Dockerfile", "tests/conftest.py"])
def test_some_changes_reach_everything(changed: str) -> None:
    reached = levels.reached_from([changed])
    assert reached is None or set(ALL) <= reached


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Two slow files, and the commit at which all passed."""
    times = tmp_path / "times.txt"
    times.write_text(f"# Seconds\n9.0 {PURE}\n4.0 {DAEMON}\n0.6 {LEARNING}\n")
    monkeypatch.setattr(levels, "TIMES", times)
    monkeypatch.setattr(levels, "CHECKED", tmp_path / "checked")
    return (tmp_path / "checked").write_text  # type: ignore[return-value]


def test_levels(recorded: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    files = [DAEMON, LEARNING, PURE]
    assert levels.choose("all", files) == levels.Choice([PURE, DAEMON, LEARNING])
    quick = levels.choose("test", files)
    assert quick.files == [LEARNING]
    assert list(quick.left_out.values()) == [[PURE, DAEMON]]
    recorded("0123456789abcdef\n")
    monkeypatch.setattr(levels, "changed_files", lambda commit: ["pollerd/daemon/commit.py"])
    checked = levels.choose("check", files)
    assert checked.files == [DAEMON, LEARNING]
    ((rule, left_out),) = checked.left_out.items()
    assert "0123456789ab" in rule
    assert left_out == [PURE]


def test_all_is_checked_where_git_does_not_know_what_changed(recorded: Callable[[str], None]) -> None:
    files = [DAEMON, LEARNING, PURE]
    assert levels.choose("check", files).files == [PURE, DAEMON, LEARNING], "no commit is noted"
    recorded("0" * 40)
    assert levels.choose("check", files).files == [PURE, DAEMON, LEARNING], "a commit that is not there"


def test_what_passed_with_the_same_files_is_left_out() -> None:
    files, known = [DAEMON, LEARNING, PURE], levels.digests()
    assert set(known) == set(ALL)
    assert levels.choose("all", files, known).files == []
    assert levels.choose("all", files, known | {PURE: "of other files"}).files == [PURE]
    assert len(levels.choose("all", files, {}).files) == 3


def test_a_digest_is_of_all_that_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levels, "ROOT", tmp_path)
    for folder in ("pollerd/a", "pollerd/b", "tests"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "__init__.py").touch()
    (tmp_path / "pollerd/__init__.py").touch()
    (tmp_path / "tests/test_a.py").write_text("from pollerd.a import x\n")
    (tmp_path / "tests/test_b.py").write_text("import pollerd.b\n")
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    before = _digests()
    (tmp_path / "pollerd/a/page.html").touch()
    after = _digests()
    assert after["tests/test_a.py"] != before["tests/test_a.py"]
    assert after["tests/test_b.py"] == before["tests/test_b.py"]
    (tmp_path / "pyproject.toml").touch()
    assert not set(after.items()) & set(_digests().items())


def _digests() -> dict[str, str]:
    levels.import_graph.cache_clear()
    try:
        return levels.digests()
    finally:
        levels.import_graph.cache_clear()


def test_every_slow_file_is_there() -> None:
    assert len(levels.slow_files()) > 50
    assert set(levels.recorded_times()) <= set(ALL)
