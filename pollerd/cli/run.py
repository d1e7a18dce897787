"""`pollerd run`: an option for each setting of the daemon, from its table."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from pollerd.allocation.registered import NAMES
from pollerd.app.options import OPTIONS, Option, Panel
from pollerd.cli.loading import loading
from pollerd.cli.options import DURATION, existing_file, with_options, words_of
from pollerd.site_settings import Kind

ListOfSites = Annotated[
    Path | None, typer.Argument(help=OPTIONS["urls"].help, parser=existing_file, metavar="LIST_OF_SITES")
]
SettingsFile = Annotated[
    Path | None, typer.Option(help="TOML file; also POLLERD_CONFIG.", rich_help_panel=Panel.DAEMON.value)
]
_METAVARS: Mapping[Kind, str] = {
    Kind.TEXT: "TEXT",
    Kind.PATH: "FILE",
    Kind.NAMES: "NAMES",
    Kind.SECONDS: DURATION,
    Kind.RATE: "POLLS",
    Kind.SHARE: "SHARE",
    Kind.COUNT: "NUMBER",
    Kind.SIZE: "BYTES",
}


def flag_of(option: Option) -> Parameter:
    """Returns the flag of a setting: without a value for a switch, several times for a list of names."""
    default = f" Default: {option.default_text}." if option.default_text and option.kind is not Kind.SWITCH else ""
    shown = option.metavar or "|".join(option.choices) or _METAVARS.get(option.kind)
    if option.flag:
        shown = _METAVARS[Kind.PATH]
    about = typer.Option(
        option.flag_name,
        help=option.help + default,
        rich_help_panel=option.panel.value,
        metavar=shown,
        autocompletion=words_of(shown or "", *(NAMES if option.name in ("allocator", "shadow") else ())),
    )
    kind: Any = {Kind.SWITCH: bool, Kind.NAMES: list[str]}.get(option.kind, str)
    name = option.flag.replace("-", "_") or option.name
    return Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, about])


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


@with_options("flags", [flag_of(option) for name, option in OPTIONS.items() if name != "urls"])
def run(urls: ListOfSites = None, *, flags: Mapping[str, Any], config: SettingsFile = None) -> None:
    """Poll the sites of a list, and those added while it runs, until Ctrl-C. SIGHUP reads list and settings again.

    Every option is also a POLLERD_... variable and a TOML key; flags win, then variables, then the file.

    Example: pollerd run sites.txt --budget 20/min
    """
    options = {
        "urls": urls,
        **{name: value for name, value in flags.items() if value != []},
    }  # not given: an empty list
    with loading():  # here, so that --help does not load it
        from pollerd.app import gc_tuning

        gc_tuning.before_loading()
        from pollerd.cli.serving import serve
    serve(options, config)


app = typer.Typer(help=run.__doc__, add_completion=False, pretty_exceptions_enable=False)
app.command(name="run", cls=_Run)(run)
