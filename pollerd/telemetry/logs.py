"""Structured logs on standard error: key=value or JSON, one line per event."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from typing import TextIO

import structlog
from structlog.typing import Processor

from pollerd.errors import InvalidValueError
from pollerd.telemetry.recent_lines import RecentLines

FORMATS = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")


RECENT = RecentLines()
"""The last lines of this process's log."""


def set_up_logs(format_name: str = "text", level: str = "info", stream: TextIO | None = None) -> None:
    """Sends pollerd's own logs, and the warnings of its libraries, to one stream; the last lines are kept in `RECENT`.

    Raises InvalidValueError for an unknown format or level.
    """
    if format_name not in FORMATS:
        raise InvalidValueError("log_format", "one of " + ", ".join(FORMATS), format_name)
    if level not in LEVELS:
        raise InvalidValueError("log_level", "one of " + ", ".join(LEVELS), level)
    out = stream or sys.stderr
    threshold = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[*_shared(), *_rendering(format_name)],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.WriteLoggerFactory(file=out),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_shared(),
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_rendering(format_name)],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(threshold, logging.WARNING))


def _shared() -> Sequence[Processor]:
    return [structlog.processors.add_log_level, structlog.processors.TimeStamper(fmt="iso", utc=True, key="at")]


def _rendering(format_name: str) -> Sequence[Processor]:
    if format_name == "json":
        # Without local variables, which contain passwords and tokens.
        tracebacks = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
        render: Processor = structlog.processors.JSONRenderer()
        return [structlog.processors.ExceptionRenderer(tracebacks), RECENT.keeping(render)]
    render = structlog.processors.LogfmtRenderer(
        key_order=["at", "level", "event"], drop_missing=True, bool_as_flag=False
    )
    return [structlog.processors.format_exc_info, RECENT.keeping(render)]
