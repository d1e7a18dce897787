"""A daemon needs none of the optional rooms: it polls from an installation without their folders."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest

import pollerd
from pollerd.app.rooms import CRAWLER, LAB, MOVING, ROOMS
from tests.support.origin import Origin, until
from tests.support.process import command, daemon_process


def installation_without(rooms: Collection[str], folder: Path) -> dict[str, str]:
    """Puts all of the package but some rooms into the folder; returns the variables that make Python use that one."""
    package = Path(pollerd.__file__).parent
    for room in rooms:
        assert (package / room / "__init__.py").is_file()
    (folder / "pollerd").mkdir()
    for part in package.iterdir():
        if part.name not in rooms:
            (folder / "pollerd" / part.name).symlink_to(part)
    (folder / "migrations").symlink_to(package.parent / "migrations")
    return {"PYTHONPATH": str(folder), "PYTHONSAFEPATH": "1"}


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    """Of an installation without any optional room."""
    return installation_without([room.package.removeprefix("pollerd.") for room in ROOMS], tmp_path)


async def test_a_daemon_polls_without_the_optional_rooms(
    origin: Origin, tmp_path: Path, variables: dict[str, str]
) -> None:
    (tmp_path / "urls.txt").write_text(f"{origin.url('/a')}\n")
    database = f"sqlite+aiosqlite:///{tmp_path / 'poll.db'}"
    for _ in range(2):  # a new database, and one that it knows
        polled = len(origin.log)
        async with daemon_process(database, tmp_path / "log", str(tmp_path / "urls.txt"), **variables) as daemon:
            await daemon.said("event=started")
            await until(lambda before=polled: len(origin.log) > before, 60.0)  # type: ignore[misc]
            assert daemon.running
            assert "Traceback" not in daemon.log


async def test_who_asks_for_a_room_that_is_not_there_is_told_so(tmp_path: Path, variables: dict[str, str]) -> None:
    (tmp_path / "topic.toml").write_text('name = "tea"\n')
    (tmp_path / "jobs.yaml").write_text("url: https://a.invalid/\n")
    moving = ("sites", "import", str(tmp_path / "jobs.yaml"), "--from", "urlwatch")
    asked = {
        CRAWLER: ("run", "--topic", str(tmp_path / "topic.toml"), "--database", f"sqlite:///{tmp_path / 'x.db'}"),
        MOVING: moving,
        LAB: ("reproduce", "--list"),
    }
    assert set(asked) == set(ROOMS)
    for room, words in asked.items():
        ended = await command(*words, env=variables)
        assert ended.code == 2, ended.err
        assert "Traceback" not in ended.err
        assert f"is not part of this installation: {room.package}" in " ".join(ended.err.split())
    assert (await command("--help", env=variables)).code == 0
