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

Commands = Mapping[str, tuple[str, str]]
"""Name -> (module below pollerd.cli and attribute, one line of help)."""


def group_of(commands: Commands, *, name: str | None = None, help_: str) -> typer.Typer:
    """Returns a group that lists the commands by their help lines, and loads the one that is called."""

    class Group(TyperGroup):
        def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
            """Returns the command that `args` begin with, and the remaining arguments."""
            called, _, rest = super().resolve_command(ctx, args)
            command = None if called is None else _loaded(called, commands[called][0])
            innermost: Any = command
            words = rest
            while words and words[0] in getattr(innermost, "commands", ()):
                innermost, words = innermost.commands[words[0]], words[1:]
            note_options({one.name: one.opts for one in getattr(innermost, "params", ())}, words)
            return called, command, rest

    group = typer.Typer(
        cls=Group, name=name, help=help_, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
    )
    for command, (_, line) in commands.items():
        group.command(name=command, help=line)(_listed)
    group.callback()(_alone)
    return group


def _loaded(name: str, where: str) -> Any:
    module, attribute = where.split(":")
    with loading(), LAB.needed():
        found = getattr(import_module(f"pollerd.cli.{module}"), attribute)
    if not isinstance(found, typer.Typer):
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        alone.command(name=name)(found)
        found = alone
    command = typer.main.get_command(found)
    command.name = name
    return command


def _listed() -> None:
    """Placeholder of a command in the list, until the real one is loaded."""


def _alone() -> None:
    """Callback that makes a group of a single command remain a group."""


COMMANDS: Commands = {
    "run": ("run:app", "Polls the sites of a list, and those added over REST, until Ctrl-C."),
    "demo": ("demo.demo:demo", "Starts a small changing web on loopback and polls it live."),
    "sites": ("commands:sites", "The sites of a running daemon."),
    "jobs": ("jobs:app", "What was done to many sites, and how it is undone."),
    "sources": ("sources:app", "Sitemaps and feeds whose pages become sites of a running daemon."),
    "reads": ("reads:app", "Reads of changes: from them half-lives of interest are learned."),
    "signals": ("signals:app", "Signal sources: sites and programs that say when pages change."),
    "tags": ("tags:app", "What the sites of a tag inherit."),
    "rules": ("rules:app", "Who is told of what."),
    "channels": ("channels:app", "Where it is told."),
    "deliveries": ("deliveries:app", "What was told to whom, and when."),
    "changes": ("changes:changes", "Lists the changes found, newest first."),
    "values": ("selections:values", "Lists the values of a site as they were read, newest first."),
    "diff": ("changes:diff", "Shows what a change changed."),
    "export": ("transfer:export", "Writes all that was set."),
    "import": (
        "transfer:import_",
        "Puts an export in force.",
    ),
    "plan": ("plan:plan", "Says what budget is needed to learn of changes in time."),
    "doctor": ("doctor:doctor", "Says how the daemon is, a line each."),
    "collection": ("collection:app", "What the focused crawler of a running daemon has found."),
    "users": ("accounts:app", "Who may sign in."),
    "tokens": ("tokens:app", "Makes a token."),
    "config": ("config:app", "What is set, and where it came from."),
    "db": ("db:app", "The database's schema."),
    "simulate": (
        "simulate:simulate",
        "Drives allocators through their contract and prints what they reach.",
    ),
    "reproduce": ("reproduce:reproduce", "Runs experiments of the papers and ours, and writes reports."),
}

SITE_COMMANDS: Commands = {
    "add": ("sites:add", "Adds sites; all get the same settings."),
    "list": ("sites:list_", "Lists sites: id, state, URL, changes per day, polls, changes."),
    "show": ("sites:show", "Shows all of one site, and why it is polled as it is."),
    "edit": ("sites:edit", "Changes settings of sites."),
    "pause": ("sites:pause", "Stops the polling of sites until they are resumed."),
    "resume": ("sites:resume", "Polls sites again that were paused, back off, or were gone."),
    "poll": ("sites:poll", "Polls sites before all others, as soon as their hosts allow."),
    "remove": ("sites:remove", "Removes sites with all that was recorded of them."),
    "bulk": (
        "jobs:bulk",
        "Does one thing to all sites that fit a filter.",
    ),
    "import": (
        "lists:import_",
        "Adds the sites of a file.",
    ),
    "diff": ("lists:diff", "Says what a list would change, and changes nothing."),
    "preview": (
        "selections:preview",
        "Shows what is kept of a page, what is removed, its values, and what the conditions say.",
    ),
    "export": ("lists:export", "Writes all sites with their settings, as `import` reads them."),
}
sites = group_of(SITE_COMMANDS, help_="The sites of a running daemon.")

app = group_of(
    COMMANDS, name="pollerd", help_="Watches web pages and feeds for change, under one budget of polls per second."
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pollerd {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    _: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None:
    """What every command takes."""
