"""What commands that call a daemon load: little, so that they answer at once."""

from __future__ import annotations

import asyncio
import json
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer

from pollerd import allocation
from pollerd.allocation import contract, registry
from pollerd.allocation.registered import NAMES
from pollerd.cli.commands import COMMANDS
from pollerd.cli.commands import SITE_COMMANDS as SITES
from tests.support.process import environment

HEAVY = frozenset({"aiohttp", "alembic", "asyncio", "fastapi", "numpy", "sqlalchemy", "structlog", "uvicorn", "uvloop"})
LISTS_MODULES = """
import atexit, json, sys
atexit.register(lambda: print("\\nMODULES" + json.dumps(sorted(sys.modules)), file=sys.stderr))
sys.argv[0] = "pollerd"
from pollerd.cli import main
main()
"""
NOBODY = "http://127.0.0.1:9"
"""The discard port of loopback: nobody answers, and the command ends after it has loaded all it calls with."""
TO_A_DAEMON = ("--url", NOBODY)


async def modules_of(*arguments: str, cwd: Path) -> set[str]:
    """The modules that were loaded when the command ended."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", LISTS_MODULES, *arguments),
        env=environment(),
        cwd=cwd,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, err = await process.communicate()
    said, _, listed = err.decode().rpartition("\nMODULES")
    assert "Traceback" not in said, said
    return set(json.loads(listed))


@pytest.mark.parametrize(
    ("arguments", "most"),
    [
        (("--version",), 184),
        (("--help",), 380),
        (("run", "--help"), 490),
        (("sites", "--help"), 450),
        (("sites", "list", *TO_A_DAEMON), 390),
        (("sites", "edit", "1", "--weight", "2", *TO_A_DAEMON), 390),
        (("changes", *TO_A_DAEMON), 370),
        (("changes", "--follow", *TO_A_DAEMON), 370),
        (("diff", "1", *TO_A_DAEMON), 370),
        (("plan", *TO_A_DAEMON), 390),
        (("rules", "add", "x", "--channel", "mail", "--digest", "hourly", *TO_A_DAEMON), 290),
        (("channels", "add", "x", "--kind", "webhook", "--set", "url=https://a.org", *TO_A_DAEMON), 290),
        (("deliveries", "--state", "dead", *TO_A_DAEMON), 290),
        (("collection", "status", *TO_A_DAEMON), 360),
        (("doctor", *TO_A_DAEMON), 380),
        (("tokens",), 340),
        (("config", "check"), 410),
        (("config", "show"), 410),
        (("config", "key"), 410),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, tuple) else None,
)
async def test_a_command_loads_little(arguments: tuple[str, ...], most: int, tmp_path: Path) -> None:
    """`most`: an eighth above the modules counted when this was written, of which Python and Typer load 300."""
    loaded = await modules_of(*arguments, cwd=tmp_path)
    assert not HEAVY & loaded
    assert len(loaded) <= most


def test_the_names_of_allocators_are_those_registered() -> None:
    assert registry.names() == NAMES


def test_the_allocators_contract_is_importable_from_its_room() -> None:
    """Programs outside import these names; nothing heavy is loaded before one is used."""
    for name in allocation.__all__:
        assert getattr(allocation, name) in (*vars(contract).values(), *vars(registry).values())
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = allocation.nothing


@pytest.mark.parametrize("name", [*COMMANDS, *(f"sites {name}" for name in SITES)])
def test_the_list_of_commands_says_what_each_says_of_itself(name: str) -> None:
    where, told = SITES[name.removeprefix("sites ")] if name.startswith("sites ") else COMMANDS[name]
    module, attribute = where.split(":")
    found = getattr(import_module(f"pollerd.cli.{module}"), attribute)
    own = found.info.help if isinstance(found, typer.Typer) else found.__doc__
    if isinstance(own, str):  # a group without a text of its own is described by the list alone
        assert own.startswith(told.removesuffix("."))
