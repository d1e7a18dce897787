"""The command: what was given, as settings."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import typer
from typer.core import TyperCommand

from pollerd.cli.common.grouped import grouped
from pollerd.cli.common.loading import loading
from pollerd.cli.run.options import CrawlerOptions, ListOfSites, PollingOptions, ProcessOptions, SettingsFile

_TRUST = frozenset({"off", "hint", "strict", "true", "false"})


class _Run(TyperCommand):
    """Keeps `--respect-ttl` alone, as it was before it had values, without taking the list of sites for its value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses the arguments."""
        return super().parse_args(ctx, list(_spelled_out(args)))


def _spelled_out(args: Sequence[str]) -> Iterator[str]:
    for arg, following in itertools.pairwise((*args, "")):
        if arg == "--no-respect-ttl":
            yield "--respect-ttl=off"
        elif arg == "--respect-ttl" and following.lower() not in _TRUST:
            yield "--respect-ttl=strict"
        else:
            yield arg


@grouped
def run(
    urls: ListOfSites = None,
    *,
    crawler: CrawlerOptions,
    polling: PollingOptions,
    process: ProcessOptions,
    config: SettingsFile = None,
) -> None:
    """Polls the sites of a list, and those added over REST, until Ctrl-C. SIGHUP reads list and settings again.

    Every option is also a POLLERD_... variable and a TOML key; flags win, then variables, then the file.
    """
    given = {"urls": urls, **vars(crawler), **vars(polling), **vars(process)}
    flags = {name: None if value == [] else value for name, value in given.items()}  # not given: an empty list
    with loading():  # here, so that --help does not load it
        from pollerd.app import gc_tuning

        gc_tuning.before_loading()
        from pollerd.cli.serving import serve
    serve(flags, config)


app = typer.Typer(help=run.__doc__, add_completion=False, pretty_exceptions_enable=False)
app.command(name="run", cls=_Run)(run)
