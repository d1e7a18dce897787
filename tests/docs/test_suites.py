"""What `make test` runs: every room of the product has tests that are not slow."""

from __future__ import annotations

from pathlib import Path

from tests.support.levels import slow_files

ROOT = Path(__file__).parents[2]


def rooms(folder: Path) -> list[str]:
    """The top-level packages of the product."""
    return sorted(path.parent.name for path in folder.glob("*/__init__.py"))


def without_fast_tests(product: Path, tests: Path, slow: set[str]) -> list[str]:
    """Rooms of which every test file is among the slow ones, or that have none. A room's tests lie in its namesake."""
    return [
        room
        for room in rooms(product)
        if not any(f"tests/{room}/{path.name}" not in slow for path in (tests / room).glob("test_*.py"))
    ]


def test_every_room_has_a_fast_test_file() -> None:
    assert len(rooms(ROOT / "pollerd")) > 10
    assert without_fast_tests(ROOT / "pollerd", ROOT / "tests", slow_files()) == []


def test_a_room_without_fast_tests_is_named(tmp_path: Path) -> None:
    for room in ("quick", "slow", "untested"):
        (tmp_path / "product" / room).mkdir(parents=True)
        (tmp_path / "product" / room / "__init__.py").touch()
    for name in ("quick/test_a.py", "quick/test_b.py", "slow/test_c.py", "slow/conftest.py"):
        (tmp_path / "tests" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tests" / name).touch()
    slow = {"tests/quick/test_b.py", "tests/slow/test_c.py"}
    assert without_fast_tests(tmp_path / "product", tmp_path / "tests", slow) == ["slow", "untested"]
