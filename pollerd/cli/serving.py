"""Runs the daemon for `pollerd run`: settings, logs, status line."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pollerd.app import serve as application
from pollerd.app.config import load
from pollerd.app.listed.url_list import check_list
from pollerd.app.topic_file import read_mission
from pollerd.cli.status import watch_status
from pollerd.telemetry import set_up_logs
from pollerd.telemetry.terminal import StatusTerminal, redraws


def serve(flags: Mapping[str, Any], config: Path | None) -> None:
    """Runs the daemon until it is stopped. Raises PollerdError for invalid settings or an invalid list."""
    again = partial(load, flags, file=config)
    settings = again()
    set_up_logs(settings.options.log_format, settings.options.log_level)
    if settings.options.urls is not None:
        check_list(settings.options.urls)
    read_mission(settings.options.topic, settings.options.seeds)
    if not redraws(sys.stderr):
        application.run(settings, None, again)
        return
    with StatusTerminal(sys.stderr).as_stream() as terminal:
        set_up_logs(settings.options.log_format, settings.options.log_level)
        application.run(settings, partial(watch_status, terminal=terminal), again)
