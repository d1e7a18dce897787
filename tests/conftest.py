"""What all tests share: the slowest files are named at the end of a run."""

from __future__ import annotations

from collections import defaultdict

import pytest

_NAMED = 15
_SECONDS: defaultdict[str, float] = defaultdict(float)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Counts the time of each test, of its set-up and its tear-down, for its file."""
    _SECONDS[report.location[0]] += report.duration


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Names the slowest files."""
    if len(_SECONDS) > 1:
        terminalreporter.section("slowest files")
        for file in sorted(_SECONDS, key=_SECONDS.__getitem__, reverse=True)[:_NAMED]:
            terminalreporter.write_line(f"{_SECONDS[file]:7.1f} s  {file}")
