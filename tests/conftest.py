"""What all tests share: which files are slow, which were the slowest of a run, and a migrated database to copy.

`tests/slow.txt` names the files that `make test` leaves out and `make test-all` runs. `pytest --note-slow`, over all
tests on a quiet machine, writes it again.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from pollerd.storage.db import migrate
from tests.support import postgres
from tests.support.blocking import guard
from tests.support.ports import free_port

SLOW_SECONDS = 3.0
_LIST = Path(__file__).parent / "slow.txt"
_ROOT = _LIST.parent.parent
_NAMED = 15
_SECONDS: defaultdict[str, float] = defaultdict(float)
# How long an example takes depends on the machine: a busy one fails no test. With CI=true this is so already.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of this suite."""
    parser.addoption("--note-slow", action="store_true", help=f"write {_LIST.name} from the times of this run")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests of slow files, and puts them first: else the last of them would run alone for minutes."""
    slow = {line for line in _LIST.read_text().splitlines() if line and not line.startswith("#")}
    for item in items:
        if item.path.relative_to(_ROOT).as_posix() in slow:
            item.add_marker("slow")
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Counts the time of each test, of its set-up and its tear-down, for its file."""
    _SECONDS[report.location[0]] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Drops the databases that tests shared; notes the slow files where that is asked for."""
    postgres.end_session()
    if session.config.option.note_slow and not hasattr(session.config, "workerinput"):
        slow = sorted(file for file, seconds in _SECONDS.items() if seconds > SLOW_SECONDS)
        head = f"# Files whose tests take more than {SLOW_SECONDS:g} s together; written by `pytest --note-slow`.\n"
        _LIST.write_text(head + "".join(f"{file}\n" for file in slow))


@pytest.fixture(scope="session", autouse=True)
def loop_is_not_blocked() -> Iterator[None]:
    """A call of pollerd's that blocks the event loop raises, in every test."""
    rules = guard()
    rules.activate()
    yield
    rules.deactivate()


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite file with its schema and nothing in it, made once, to be copied: migrations have tests of their own."""
    file = tmp_path_factory.mktemp("empty") / "poll.db"
    asyncio.run(migrate.upgrade(f"sqlite+aiosqlite:///{file}"))
    # Its lock file lies beside it and is not copied.
    return file


@pytest.fixture
def unused_tcp_port() -> int:
    """In place of pytest-asyncio's, whose port a connection of another test may get before it is used."""
    return free_port()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Names the slowest files."""
    if len(_SECONDS) > 1:
        terminalreporter.section("slowest files")
        for file in sorted(_SECONDS, key=_SECONDS.__getitem__, reverse=True)[:_NAMED]:
            terminalreporter.write_line(f"{_SECONDS[file]:7.1f} s  {file}")
