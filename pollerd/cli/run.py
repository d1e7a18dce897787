"""`pollerd run`: its options, each of which is also a setting of that name."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from pollerd.allocation.registered import NAMES, OBJECTIVES
from pollerd.cli.loading import loading
from pollerd.cli.options import grouped

_POLLING = "Polling"
_DAEMON = "Daemon"
_TOPIC = "Focused crawler"

ListOfSites = Annotated[
    Path | None, typer.Argument(help="List of sites (.txt .csv .jsonl .opml .toml .yaml); read at every start.")
]
SettingsFile = Annotated[Path | None, typer.Option(help="TOML file; also POLLERD_CONFIG.", rich_help_panel=_DAEMON)]


@dataclass(frozen=True)
class CrawlerOptions:
    """The options of the focused crawler; None: left out."""

    topic: Annotated[
        Path | None,
        typer.Option(help="TOML file: build a collection on this topic, following links.", rich_help_panel=_TOPIC),
    ] = None
    seeds: Annotated[
        Path | None, typer.Option(help="List of URLs that the focused crawler begins with.", rich_help_panel=_TOPIC)
    ] = None


@dataclass(frozen=True)
class PollingOptions:
    """The options of polling; None: left out."""

    budget: Annotated[
        str | None,
        typer.Option(
            help="At most so many polls: 5 a second, 20/min, 300/h, 5000/d. Default: 5.", rich_help_panel=_POLLING
        ),
    ] = None
    allocator: Annotated[
        str | None,
        typer.Option(
            help=f"Who decides whom to poll: {', '.join(NAMES)}. Default: whittle.",
            rich_help_panel=_POLLING,
        ),
    ] = None
    objective: Annotated[
        str | None, typer.Option(help=f"{', '.join(OBJECTIVES)}. Default: changes.", rich_help_panel=_POLLING)
    ] = None
    deadline: Annotated[
        str | None,
        typer.Option(
            help="For objective deadline: in which a change should be found. Default: 30m.", rich_help_panel=_POLLING
        ),
    ] = None
    shadow: Annotated[
        str | None,
        typer.Option(
            help="Others that learn beside it, to compare: htraa,uniform. At most 3.", rich_help_panel=_POLLING
        ),
    ] = None
    host_interval: Annotated[
        str | None, typer.Option(help="Between two requests to one host. Default: 1s.", rich_help_panel=_POLLING)
    ] = None
    min_interval: Annotated[
        str | None,
        typer.Option(help="Shortest time between two polls of a site. Default: 30s.", rich_help_panel=_POLLING),
    ] = None
    max_interval: Annotated[str | None, typer.Option(help="Longest. Default: none.", rich_help_panel=_POLLING)] = None
    min_yield: Annotated[
        str | None,
        typer.Option(
            help="No poll while a change is believed less likely; 0: whatever is believed. Default: 1%.",
            rich_help_panel=_POLLING,
        ),
    ] = None
    max_silence: Annotated[
        str | None,
        typer.Option(
            help="After so long a site may be polled whatever is believed. Default: 1d.", rich_help_panel=_POLLING
        ),
    ] = None
    respect_ttl: Annotated[
        str | None,
        typer.Option(
            metavar="off|hint|strict",
            help="How far max-age, Expires and a feed's ttl are believed. hint: up to 1h, not once a change was found "
            "earlier; strict: up to a day, also as --respect-ttl alone; off: also as --no-respect-ttl. Default: hint.",
            rich_help_panel=_POLLING,
        ),
    ] = None
    contact: Annotated[
        str | None, typer.Option(help="URL or mail address of yours, sent in the User-Agent.", rich_help_panel=_POLLING)
    ] = None
    allow_private: Annotated[
        bool | None,
        typer.Option("--allow-private", help="Also poll loopback and private addresses.", rich_help_panel=_POLLING),
    ] = None
    proxy: Annotated[
        str | None,
        typer.Option(
            help="http:// or https:// proxy for every request; with a password better as POLLERD_PROXY_FILE.",
            rich_help_panel=_POLLING,
        ),
    ] = None
    browser: Annotated[
        str | None,
        typer.Option(
            help="For pages that need one: the path of a Chromium, or the ws:// or http:// address of a browser.",
            rich_help_panel=_POLLING,
        ),
    ] = None
    browser_pages: Annotated[
        int | None, typer.Option(help="Most pages rendered at once. Default: 2.", rich_help_panel=_POLLING)
    ] = None
    sync: Annotated[
        bool | None,
        typer.Option(
            "--sync",
            help="The list is the truth: settings are set back to it, and what is not in it is removed.",
            rich_help_panel=_POLLING,
        ),
    ] = None


@dataclass(frozen=True)
class ProcessOptions:
    """The options of database, API, other nodes, users, notifications and log; None: left out."""

    database: Annotated[
        str | None,
        typer.Option(help="sqlite+aiosqlite:///FILE or postgresql+asyncpg://...", rich_help_panel=_DAEMON),
    ] = None
    no_web: Annotated[
        bool | None,
        typer.Option("--no-web", help="No web pages: REST, metrics and health only.", rich_help_panel=_DAEMON),
    ] = None
    no_wait: Annotated[
        bool | None,
        typer.Option(
            "--no-wait",
            help="End where the database cannot be opened, instead of waiting.",
            rich_help_panel=_DAEMON,
        ),
    ] = None
    node: Annotated[
        str | None,
        typer.Option(
            help="Share the database, on PostgreSQL, with other nodes, under this name; auto: the machine's.",
            rich_help_panel=_DAEMON,
        ),
    ] = None
    node_address: Annotated[
        str | None,
        typer.Option(
            help="Where the other nodes reach this one's API, as a URL; auto: at the machine's name.",
            rich_help_panel=_DAEMON,
        ),
    ] = None
    listen: Annotated[
        str | None, typer.Option(help="Address of the API. Default: 127.0.0.1:8080.", rich_help_panel=_DAEMON)
    ] = None
    sign_in: Annotated[
        bool | None,
        typer.Option(
            "--sign-in",
            help="Callers must sign in, or send a token. Where there is no user yet, a link in the log makes one.",
            rich_help_panel=_DAEMON,
        ),
    ] = None
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            help="Name under which browsers reach this daemon; may be given more than once.",
            rich_help_panel=_DAEMON,
        ),
    ] = None
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(
            help="Address or network of a proxy that says who calls; may be given more than once.",
            rich_help_panel=_DAEMON,
        ),
    ] = None
    user_header: Annotated[
        str | None,
        typer.Option(help="Header in which trusted proxies name the user.", rich_help_panel=_DAEMON),
    ] = None
    public_url: Annotated[
        str | None,
        typer.Option(help="Where users reach this daemon, for links in notifications.", rich_help_panel=_DAEMON),
    ] = None
    callback_url: Annotated[
        str | None,
        typer.Option(
            help="Where WebSub hubs reach this daemon, as a URL; without it no hub is subscribed to.",
            rich_help_panel=_DAEMON,
        ),
    ] = None
    indexnow: Annotated[
        bool | None,
        typer.Option(
            "--indexnow",
            help="Anybody may report changed pages in IndexNow's form, if their host holds the key.",
            rich_help_panel=_DAEMON,
        ),
    ] = None
    allow_private_channels: Annotated[
        bool | None,
        typer.Option(
            "--allow-private-channels",
            help="Channels may lead to loopback and private addresses.",
            rich_help_panel=_DAEMON,
        ),
    ] = None
    token_file: Annotated[
        Path | None,
        typer.Option(help="Holds the token, or its hash, that allows everything.", rich_help_panel=_DAEMON),
    ] = None
    read_token_file: Annotated[
        Path | None, typer.Option(help="Holds the token that allows reading.", rich_help_panel=_DAEMON)
    ] = None
    secret_key_file: Annotated[
        Path | None,
        typer.Option(
            help="Holds the key that sites' credentials are sealed with. Default: beside an SQLite file.",
            rich_help_panel=_DAEMON,
        ),
    ] = None
    log_format: Annotated[str | None, typer.Option(help="text (key=value) or json.", rich_help_panel=_DAEMON)] = None
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.", rich_help_panel=_DAEMON)] = (
        None
    )


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
