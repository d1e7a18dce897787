"""Which files a run takes (`--level`), each collected in the process that runs it; how long each took.

`pytest --note-times`, over all tests on a quiet machine, writes `.ci/times.txt` anew.
"""

from __future__ import annotations

import logging
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings

from tests.support import AT_SESSION_END, levels
from tests.support.blocking import guard
from tests.support.ports import free_port

_CHOICE = pytest.StashKey[levels.Choice]()
_SECONDS: defaultdict[str, float] = defaultdict(float)
_SLOWEST = 15
_PASSED = "pollerd/passed"
# Reading the system's certificates takes 30 ms in each daemon; no test meets a server that they vouch for.
os.environ["SSL_CERT_FILE"] = str(levels.ROOT / "tests" / "support" / "authority.pem")
# How long an example takes depends on the machine: a busy one fails no test. With CI=true this is so already.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of this suite."""
    parser.addoption("--level", choices=levels.LEVELS, default="all", help="which files: tests/support/levels.py")
    parser.addoption("--resume", action="store_true", help="leave out files that passed with the same sources before")
    parser.addoption("--note-times", action="store_true", help=f"write {levels.TIMES.name} from the times of this run")


def pytest_configure(config: pytest.Config) -> None:
    """Chooses the files; a worker is given the choice."""
    given = getattr(config, "workerinput", {}).get("files")
    files = (str(path.relative_to(levels.ROOT)) for path in (levels.ROOT / "tests").rglob("test_*.py"))
    passed = config.cache.get(_PASSED, {}) if config.getoption("resume") else None
    chosen = levels.choose(config.getoption("level"), files, passed) if given is None else levels.Choice(given)
    config.stash[_CHOICE] = chosen
    if given is None and config.getoption("resume"):
        config.pluginmanager.register(PassedFiles(config))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Gives a worker of pytest-xdist the choice."""
    node.workerinput["files"] = node.config.stash[_CHOICE].files


class PassedFiles:
    """Keeps in pytest's cache with which sources a file passed, also if the run is broken off later."""

    def __init__(self, config: pytest.Config) -> None:
        self._config, self._digests, self._failed = config, levels.digests(), set[str]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Notes failures, and the end of a file."""
        file = report.nodeid.split("::")[0]
        if report.failed:
            self._failed.add(file)
        elif report.when == WholeFile.END and file not in self._failed:
            self._config.cache.set(_PASSED, {**self._config.cache.get(_PASSED, {}), file: self._digests[file]})

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Notes files that cannot be collected."""
        if report.failed:
            self._failed.add(report.nodeid.split("::")[0])


class WholeFile(pytest.Item):
    """A file of tests that is collected when a worker's turn comes to run it.

    Workers of pytest-xdist must all have the same list of what to run. Were it the tests, each worker would import all
    files; this way each file is imported by one.
    """

    END = "end of file"
    """Phase of the report that follows those of its tests."""

    def run_all(self, nextitem: pytest.Item | None) -> None:
        """Collects the tests of the file and runs them, until one fails and the run is to stop."""
        module = pytest.Module.from_parent(self.parent.parent, path=self.path)  # type: ignore[union-attr]
        tests = list(self.session.genitems(module))
        self.config.hook.pytest_collection_modifyitems(session=self.session, config=self.config, items=tests)
        place = self.session.items.index(self)
        for test, following in zip(tests, [*tests[1:], nextitem], strict=True):
            self.session.items[place] = test  # where the worker looks for what it reports of
            self.ihook.pytest_runtest_protocol(item=test, nextitem=following)
            if self.session.shouldfail or self.session.shouldstop:
                break
        self.session.items[place] = self
        end: Any = self.END
        report = pytest.TestReport(self.nodeid, self.reportinfo(), {}, "passed", None, end)
        self.ihook.pytest_runtest_logreport(report=report)

    def runtest(self) -> None:
        """Is not called: `pytest_runtest_protocol` runs what is in the file."""
        raise NotImplementedError

    def reportinfo(self) -> tuple[str, None, str]:
        """Where it is."""
        return self.nodeid, None, self.name


class FileForLater(pytest.File):
    """A file whose tests are not looked at yet."""

    def collect(self) -> Iterator[pytest.Item]:
        """Returns the file as one item."""
        yield WholeFile.from_parent(self, name=self.path.name)


def _relative(path: Path) -> str:
    return path.relative_to(levels.ROOT).as_posix()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out the files that the level does not run."""
    is_test = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
    return True if is_test and _relative(collection_path) not in config.stash[_CHOICE].files else None


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Puts off collecting a file in workers, but where tests are chosen by name."""
    config = parent.config
    by_name = config.getoption("keyword") or any("::" in argument for argument in config.args)
    if not hasattr(config, "workerinput") or by_name:
        return None
    return FileForLater.from_parent(parent, path=module_path)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Runs the tests of a file that was put off."""
    if not isinstance(item, WholeFile):
        return None
    item.run_all(nextitem)
    return True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts the slowest files first: else the last of them would run alone for minutes."""
    if len({item.path for item in items}) > 1:
        place = {file: number for number, file in enumerate(config.stash[_CHOICE].files)}
        items.sort(key=lambda item: place.get(_relative(item.path), 0))


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Does not count the end of a file as a test."""
    return ("", "", "") if report.when == WholeFile.END else None


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Counts the time of each test, of its set-up and its tear-down, for its file."""
    if report.when != WholeFile.END:
        _SECONDS[report.location[0]] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Ends what tests shared; notes how long files took where that is asked for."""
    if session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and session.config.stash[_CHOICE].left_out:
        session.exitstatus = pytest.ExitCode.OK  # all passed before
    while AT_SESSION_END:
        AT_SESSION_END.pop()()
    if session.config.option.note_times and not hasattr(session.config, "workerinput"):
        head = "# Seconds that files of tests took, for those above half a second; `pytest --note-times` writes it.\n"
        lines = (f"{seconds:.1f} {file}\n" for file, seconds in sorted(_SECONDS.items()) if seconds >= 0.5)
        levels.TIMES.write_text(head + "".join(lines))


@pytest.fixture(scope="session", autouse=True)
def loop_is_not_blocked() -> Iterator[None]:
    """A call of pollerd's that blocks the event loop raises, in every test."""
    rules = guard()
    rules.activate()
    yield
    rules.deactivate()


@pytest.fixture(autouse=True)
def logs_end_with_the_test() -> Iterator[None]:
    """A command that a test runs in this process sends the logs to its own output, which is closed afterwards."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)
    root = logging.getLogger()
    root.handlers[:] = [
        one for one in root.handlers if not isinstance(one.formatter, structlog.stdlib.ProcessorFormatter)
    ]


@pytest.fixture
def unused_tcp_port() -> int:
    """In place of pytest-asyncio's, whose port a connection of another test may get before it is used."""
    return free_port()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Names the slowest files, and what was left out by which rule."""
    if len(_SECONDS) > 1:
        terminalreporter.section("slowest files")
        for file in sorted(_SECONDS, key=_SECONDS.__getitem__, reverse=True)[:_SLOWEST]:
            terminalreporter.write_line(f"{_SECONDS[file]:7.1f} s  {file}")
    for rule, files in config.stash[_CHOICE].left_out.items():
        terminalreporter.section(f"left out: {len(files)} files")
        terminalreporter.write_line(f"Each of these {rule}:")
        terminalreporter.write_line(" ".join(sorted(files)))
