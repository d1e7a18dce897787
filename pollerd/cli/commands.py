"""All commands by name, in groups, each of which is loaded only when it is called."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from pollerd import __version__
from pollerd.app.rooms import LAB
from pollerd.cli.loading import loading
from pollerd.cli.output import note_options
from pollerd.cli.usage import UsageError, word, word_frames

Commands = Mapping[str, tuple[str, str]]
"""Name -> (module below pollerd.cli and attribute, one line of help)."""


def group_of(commands: Commands, *, name: str | None = None, help_: str, completion: bool = False) -> typer.Typer:
    """Returns a group that lists the commands by their help lines, and loads the one that is called.

    completion: has options that show and install the completion of the shell.
    """

    class Group(TyperGroup):
        def __init__(self, *arguments: Any, **settings: Any) -> None:
            super().__init__(*arguments, **settings)
            word(self)

        def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
            """Returns the command that `args` begin with, and the remaining arguments."""
            called, _, rest = super().resolve_command(ctx, args)
            command = None if called is None else _loaded(called, *commands[called])
            innermost: Any = command
            words = rest
            while words and words[0] in getattr(innermost, "commands", ()):
                innermost, words = innermost.commands[words[0]], words[1:]
            note_options({parameter.name: parameter.opts for parameter in getattr(innermost, "params", ())}, words)
            return called, command, rest

        def invoke(self, ctx: Any) -> Any:
            try:
                return super().invoke(ctx)
            except typer.Abort:
                word_frames()
                raise
            except typer.BadParameter as error:  # of the command itself: those of its parameters have their words
                word_frames()
                raise UsageError(error.message, error.ctx) from error

    group = typer.Typer(
        cls=Group,
        name=name,
        help=help_,
        no_args_is_help=True,
        add_completion=completion,
        pretty_exceptions_enable=False,
    )
    for command, (_module, line) in commands.items():
        group.command(name=command, help=line)(_listed)
    group.callback()(_alone)
    return group


def _loaded(name: str, where: str, line: str) -> Any:
    module, attribute = where.split(":")
    with loading(), LAB.needed():
        loaded = getattr(import_module(f"pollerd.cli.{module}"), attribute)
    if not isinstance(loaded, typer.Typer):
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        alone.command(name=name)(loaded)
        loaded = alone
    command = typer.main.get_command(loaded)
    command.name, command.help = name, command.help or line
    # Completion is that of `pollerd`, not of a command of its own.
    command.params = [one for one in command.params if one.name not in ("install_completion", "show_completion")]
    word(command)
    return command


def _listed() -> None:
    """Placeholder of a command in the list, until the real one is loaded."""


def _alone() -> None:
    """Callback that makes a group of a single command remain a group."""


COMMANDS: Commands = {
    "run": ("run:app", "Poll the sites of a list, and those added while it runs, until Ctrl-C."),
    "demo": ("demo.demo:demo", "Poll a small changing web on this machine, live."),
    "sites": ("commands:sites", "Add, list, edit, pause, import and export sites."),
    "jobs": ("jobs:app", "Show and undo bulk actions."),
    "sources": ("sources:app", "Manage sitemaps and feeds whose pages become sites."),
    "reads": ("reads:app", "Report reads of changes, from which half-lives of interest are learned."),
    "signals": ("signals:app", "Manage signal sources, which report when pages change."),
    "tags": ("tags:app", "Give settings to all sites with a tag."),
    "rules": ("rules:app", "Manage alert rules: which events are sent where."),
    "channels": ("channels:app", "Manage channels: where alerts are sent."),
    "deliveries": ("deliveries:app", "Show the delivery log, and retry failed messages."),
    "changes": ("changes:changes", "List the changes found, newest first."),
    "values": ("selections:values", "List the values read from a site, newest first."),
    "diff": ("changes:diff", "Show the difference of a change, line by line."),
    "export": ("transfer:export", "Export sites, rules, channels and settings."),
    "import": (
        "transfer:import_",
        "Apply an export.",
    ),
    "plan": ("plan:plan", "Estimate the budget you need to find changes in time."),
    "doctor": ("doctor:doctor", "Check the daemon's health, one line per item."),
    "nodes": ("nodes:app", "Show the nodes that share the database, and drain one."),
    "collection": ("collection:app", "Show the pages that the topic crawler found."),
    "users": ("accounts:app", "Manage users."),
    "tokens": ("tokens:app", "Create a token for the API."),
    "config": ("config:app", "Show each setting and its source; create a secret key."),
    "db": ("db:app", "Migrate, check and repair the database."),
    "simulate": (
        "simulate:simulate",
        "Compare policies on a simulated web.",
    ),
    "reproduce": ("reproduce:reproduce", "Run the experiments of the papers, and write reports."),
    "man": ("manual:man", "Print the manual page, in troff."),
}

SITE_COMMANDS: Commands = {
    "add": ("sites:add", "Add sites; all get the same settings."),
    "list": ("sites:list_", "List sites and their status."),
    "show": ("sites:show", "Show a site, and why it is polled this often."),
    "edit": ("sites:edit", "Change settings of sites."),
    "pause": ("sites:pause", "Pause sites until they are resumed."),
    "resume": ("sites:resume", "Resume sites that were paused, back off, or are gone."),
    "poll": ("sites:poll", "Poll sites before all others, as soon as their hosts allow."),
    "remove": ("sites:remove", "Remove sites with all their history."),
    "bulk": (
        "jobs:bulk",
        "Apply one action to all sites that match a filter.",
    ),
    "import": (
        "lists:import_",
        "Add the sites of a file.",
    ),
    "diff": ("lists:diff", "Show the changes that a list would make, without making them."),
    "preview": (
        "selections:preview",
        "Preview a selection: watched and ignored parts, values and conditions.",
    ),
    "noise": ("noise:noise", "Show the parts of a site that are hidden as noise; show a part again, or hide it."),
    "export": ("lists:export", "Export all sites with their settings, for `import`."),
}
sites = group_of(SITE_COMMANDS, help_="Add, list, edit, pause, import and export sites.")

app = group_of(
    COMMANDS,
    name="pollerd",
    help_="Watch web pages and feeds for changes, with one budget of polls per second.",
    completion=True,
)


def _show_version(requested: bool) -> None:
    if requested:
        typer.echo(f"pollerd {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None:
    """What every command takes."""
