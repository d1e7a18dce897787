"""A daemon needs nothing of the lab: it polls from an installation without `pollerd/lab`."""

from __future__ import annotations

from pathlib import Path

import pollerd
from tests.support.origin import Origin, until
from tests.support.process import command, daemon_process

ROOM = "lab"


def installation_without(room: str, folder: Path) -> dict[str, str]:
    """Puts all of the package but one room into the folder; returns the variables that make Python use that one."""
    package = Path(pollerd.__file__).parent
    assert (package / room / "__init__.py").is_file()
    (folder / "pollerd").mkdir()
    for part in package.iterdir():
        if part.name != room:
            (folder / "pollerd" / part.name).symlink_to(part)
    (folder / "migrations").symlink_to(package.parent / "migrations")
    return {"PYTHONPATH": str(folder), "PYTHONSAFEPATH": "1"}


async def test_a_daemon_polls_without_the_lab(origin: Origin, tmp_path: Path) -> None:
    variables = installation_without(ROOM, tmp_path)
    lab = await command("reproduce", "--list", env=variables)
    assert lab.code != 0
    assert "No module named 'pollerd.lab'" in lab.err, "it is that installation which runs"
    (tmp_path / "urls.txt").write_text(f"{origin.url('/a')}\n")
    database = f"sqlite+aiosqlite:///{tmp_path / 'poll.db'}"
    async with daemon_process(database, tmp_path / "log", str(tmp_path / "urls.txt"), **variables) as daemon:
        await daemon.said("event=started")
        await until(lambda: any(hit.path == "/a" for hit in origin.log), 60.0)
        assert daemon.running
        assert "Traceback" not in daemon.log
