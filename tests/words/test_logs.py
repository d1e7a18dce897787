"""Logs tell what went wrong, and none of the values that were at hand."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from pollerd.logs import set_up_logs


@pytest.fixture
def out() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield io.StringIO()
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


def _fail(password: str) -> None:
    raise RuntimeError("no luck")


@pytest.mark.parametrize("format_name", ["json", "text"])
def test_a_traceback_has_no_local_variables(out: io.StringIO, format_name: str) -> None:
    set_up_logs(format_name, "info", out)
    secret = "s3" + "cret"
    try:
        _fail(secret)
    except RuntimeError:
        structlog.get_logger("pollerd").exception("ours")
        logging.getLogger("uvicorn.error").exception("theirs")
    lines = out.getvalue()
    assert lines.count("no luck") >= 2
    assert "_fail" in lines
    assert secret not in lines
    if format_name == "json":
        assert [json.loads(line)["event"] for line in lines.splitlines()] == ["ours", "theirs"]
