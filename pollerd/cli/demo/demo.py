"""`pollerd demo`: a small changing web on loopback, polled live by the real daemon."""

from __future__ import annotations

import asyncio
import contextlib
import io
import math
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
import uvloop
from rich.console import Console
from rich.live import Live

from pollerd.app import serve
from pollerd.app.config import Config, load
from pollerd.app.demo_web import DemoWeb
from pollerd.cli.demo.view import Sample, SampleReader, SampleRow, delay, live_view, plain_line, print_final
from pollerd.cli.output import show_json
from pollerd.daemon.control.control import Control
from pollerd.daemon.process import SteadyClock
from pollerd.errors import InvalidValueError
from pollerd.logs import set_up_logs
from pollerd.texts import _

# The result of a demo as JSON.


def in_json(reading: Sample) -> dict[str, Any]:
    """Returns polls and changes in total, then per site: rates in changes per minute, times in seconds; null: unknown.

    A site that differs at every request has no true rate.
    """
    status, score = reading.status, reading.score
    return {
        "seconds": round(reading.elapsed, 3),
        "budget": status.budget,
        "polls": status.polls,
        "changes_happened": score.happened,
        "changes_noticed": score.noticed,
        "polls_that_found_one": score.found,
        "median_delay": _number(delay(reading)),
        "mean_delay": _number(score.mean_delay),
        "mean_delay_under_uniform": _number(score.uniform_mean_delay),
        "share_of_polls_that_found_one": _number(score.share),
        "share_under_uniform": _number(score.uniform_share),
        "sites": [_site(row) for row in sorted(reading.rows, key=lambda row: -row.true)],
    }


def _site(row: SampleRow) -> dict[str, Any]:
    return {
        "url": row.site.url,
        "kind": row.site.kind.value,
        "state": row.state,
        "true_rate": _number(row.true),
        "learned_rate": row.learned,
        "learned_low": row.low,
        "learned_high": row.high,
        "polls": row.polls,
        "changes_happened": row.happened,
        "polls_that_found_one": row.found,
        "last_outcome": row.outcome,
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


_LOOK_SECONDS = 0.5
_LINE_SECONDS = 5.0
_PLAIN_WIDTH = 120
_LONGEST_SECONDS = 86_400.0
_SPACING_SECONDS = 0.5
"""Minimum time between two requests to a host, and two polls of a site: the web is ours, and a demo is short."""
_BACKOFF_SECONDS = 4.0
_MARGIN_SECONDS = 60.0
"""Time for which the web goes on changing after the end, which may be late on a busy machine."""

Show = Callable[[Sample], None]


def demo(
    seconds: Annotated[float, typer.Option("--for", help="How long, in seconds.")] = 60.0,
    budget: Annotated[str, typer.Option(help="Polls per second, or 20/min, 300/h, 5000/d.")] = "8",
    sites: Annotated[int, typer.Option(help="Number of sites, 12 to 200.")] = 36,
    seed: Annotated[int | None, typer.Option(help="Draws the same web again.", min=0)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print results as JSON; progress goes to stderr.")] = False,
) -> None:
    """Poll a small changing web on this machine, live.

    Example: pollerd demo --sites 24
    """
    if not 1 <= seconds <= _LONGEST_SECONDS:
        raise InvalidValueError(
            "for", _("seconds from 1 to {longest_seconds:g}", longest_seconds=_LONGEST_SECONDS), seconds
        )
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without UTF-8 shows question marks, no traceback
    console = Console() if Console().is_terminal else Console(width=_PLAIN_WIDTH)
    last: Sample | None = None
    web = DemoWeb(sites, np.random.default_rng(seed), horizon_seconds=seconds + _MARGIN_SECONDS)
    with tempfile.TemporaryDirectory(prefix="pollerd-demo-") as folder:
        config = _config(Path(folder), budget)
        pages = f"http://{config.options.listen}/"
        with _showing(None if as_json else console, seconds, pages) as show, contextlib.suppress(KeyboardInterrupt):
            last = uvloop.run(_poll(config, web, seconds, show))
    if last is None:
        return
    if as_json:
        show_json(in_json(last))
    else:
        print_final(last, console)


def _config(folder: Path, budget: str) -> Config:
    """Returns the daemon's settings; ignores the environment."""
    config = load(
        {
            "urls": folder / "urls.txt",
            "database": f"sqlite+aiosqlite:///{folder / 'demo.db'}",
            "no_wait": True,
            "listen": f"127.0.0.1:{_free_port()}",
            "budget": budget,
            "allow_private": True,
            "host_interval": _SPACING_SECONDS,
            "min_interval": _SPACING_SECONDS,
            "min_saving": 0.0,  # its pages change within seconds: the budget decides
        },
        environ={},
    )
    return replace(config, scheduling=replace(config.scheduling, backoff_base_seconds=_BACKOFF_SECONDS))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def _poll(config: Config, web: DemoWeb, seconds: float, show: Show) -> Sample | None:
    """Runs the web and the daemon in one loop, for `seconds` or until SIGINT; returns the last sample."""
    clock = SteadyClock()
    last: Sample | None = None

    async def watch(control: Control) -> None:
        nonlocal last
        reader = SampleReader(web, control, f"http://{config.options.listen}/api/v1", clock)
        ends = asyncio.get_running_loop().time() + seconds
        over = False
        while not over:
            left = ends - asyncio.get_running_loop().time()
            over = left <= _LOOK_SECONDS
            await asyncio.sleep(min(max(left, 0.0), _LOOK_SECONDS))
            reading = await reader.read()
            if reading is not None:
                last = reading
                show(reading)

    async with web:
        urls = config.options.urls
        if urls is not None:
            urls.write_text("".join(f"{site.url}\n" for site in web.sites), encoding="utf-8")
        await serve.serve(config, watch)
    return last


@contextlib.contextmanager
def _showing(console: Console | None, seconds: float, pages: str) -> Iterator[Show]:
    """Shows samples live on a terminal, as lines every few seconds elsewhere; None: on stderr. Logs only warnings.

    pages: the address of the daemon's web pages.
    """
    aside = console is None
    if console is not None and console.is_terminal:
        with Live(console=console, auto_refresh=False, transient=True, vertical_overflow="crop") as live:
            set_up_logs("text", "warning")
            yield lambda reading: live.update(live_view(reading, seconds, console, pages), refresh=True)
        return
    set_up_logs("text", "warning")
    shown_at = 0.0
    typer.echo(
        _("a small changing web on loopback, polled for {seconds:g} s; Ctrl-C ends it earlier", seconds=seconds),
        err=aside,
    )
    typer.echo(_("its pages: {pages}", pages=pages), err=aside)

    def line(reading: Sample) -> None:
        nonlocal shown_at
        if reading.elapsed >= shown_at + _LINE_SECONDS - _LOOK_SECONDS / 2:
            shown_at = reading.elapsed
            typer.echo(plain_line(reading), err=aside)

    yield line
