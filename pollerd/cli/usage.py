"""Help and errors of the command line, in the reader's language; Typer's own errors are of another style."""

from __future__ import annotations

import copy
import re
from itertools import pairwise
from typing import Any

import typer

from pollerd.errors import InvalidValueError, file_fault, nearest, with_nearest
from pollerd.texts import _

UsageError: Any = typer.BadParameter.__base__  # which Typer does not name itself

_MEANT = {
    "--listen": "--host --port --bind --address --api-port --api-host --api",
    "--budget": "--rate --rps --qps --speed --limit",
    "--min-interval": "--interval --every --period --frequency --refresh",
    "--database": "--db --sqlite --postgres --storage",
    "--log-level": "--verbose --debug --quiet --log",
    "--max-inflight": "--concurrency --workers --threads --parallel",
    "--contact": "--user-agent --agent --email",
    "--select": "--css --xpath --jsonpath --selector --filter",
    "--headers": "--cookie --cookies --header --user-agent",
    "--credentials": "--auth --user --password --username",
    "--render": "--browser --js --javascript --chrome",
    "--windows": "--hours --schedule --time --times",
    "--weight": "--priority --importance",
    "--title": "--name --label",
    "--tag": "--group --folder --category",
    "--body": "--data --post",
}
"""Option -> names that users of other programs try for it."""


_PLACEHOLDERS = {"str": "TEXT", "path": "FILE", "filename": "FILE", "<float float>": "NUMBER NUMBER"}
"""By the types of Typer's parameters; all others take a number."""


def word(command: Any) -> None:
    """Has a command that Typer made, and those below it, show help and refuse a wrong command line in our words."""
    _word_help(command)
    _word_errors(command)
    for below in getattr(command, "commands", {}).values():
        word(below)


def _word_help(command: Any) -> None:
    format_help, help_option = command.format_help, command.get_help_option

    def get_help_option(ctx: Any) -> Any:
        option = help_option(ctx)
        option.help = _("Show this help and end.")
        return option

    def format_usage(ctx: Any, formatter: Any) -> None:
        words = " ".join(command.collect_usage_pieces(ctx))
        formatter.write_usage(ctx.command_path, words, prefix=_("Usage:") + " ")

    def format_framed_help(ctx: Any, formatter: Any) -> None:
        word_frames()
        _word_parameters(command)  # Typer adds those of completion to a command that is made
        format_help(ctx, formatter)

    command.get_help_option, command.format_usage = get_help_option, format_usage
    command.format_help = format_framed_help
    paragraphs = re.sub(r"(?<=\S)\n(?=\S)", " ", command.help or "")  # each on a line: rich wraps them
    command.help = _(paragraphs)
    _word_parameters(command)


def _word_parameters(command: Any) -> None:
    for parameter in command.params:
        parameter.help = parameter.help and _(parameter.help)
        parameter.rich_help_panel = parameter.rich_help_panel and _(parameter.rich_help_panel)
        if parameter.param_type_name == "argument":
            _name_argument(parameter)
        elif not parameter.metavar and not _choices(parameter.type) and not parameter.is_flag:
            parameter.metavar = _PLACEHOLDERS.get(parameter.type.name, "NUMBER")


def _name_argument(argument: Any) -> None:
    """Has help show an argument as FILE, without its type; one of several words as `FILE <a|b>`."""
    argument.metavar = argument.metavar or argument.name.upper() + ("..." if argument.nargs == -1 else "")
    if not _choices(argument.type):
        argument.type = copy.copy(argument.type)
        argument.type.get_metavar = lambda param, ctx: ""


def word_frames() -> None:
    """Has Typer show what it adds to help and errors, its constants, in the language of the context."""
    from typer import rich_utils  # rich, which only help and errors need

    rich_utils.ARGUMENTS_PANEL_TITLE, rich_utils.OPTIONS_PANEL_TITLE = _("Arguments"), _("Options")
    rich_utils.COMMANDS_PANEL_TITLE, rich_utils.ERRORS_PANEL_TITLE = _("Commands"), _("Error")
    rich_utils.DEFAULT_STRING, rich_utils.REQUIRED_LONG_STRING = _("[default: {}]"), _("[required]")
    rich_utils.ABORTED_TEXT = _("Aborted.")
    rich_utils.RICH_HELP = _("Try `{command_path} {help_option}` for help.")


def _word_errors(command: Any) -> None:
    parse, resolve = command.parse_args, getattr(command, "resolve_command", None)

    def parse_args(ctx: Any, args: list[str]) -> Any:
        given = list(args)
        try:
            return parse(ctx, args)
        except UsageError as error:
            message = _reworded(error, ctx, given)
            word_frames()
            if message is None:
                raise
            raise UsageError(message, ctx) from error

    def resolve_command(ctx: Any, args: list[str]) -> Any:
        name = args[0]
        if name not in command.commands and not name.startswith("-"):
            near = nearest(name, command.commands, most=1)
            word_frames()
            raise UsageError(_unknown(_("there is no command {name}", name=name), near, ctx), ctx)
        assert resolve is not None
        return resolve(ctx, args)

    command.parse_args = parse_args
    if resolve is not None:
        command.resolve_command = resolve_command


def _reworded(error: Any, ctx: Any, given: list[str]) -> str | None:
    """Returns what an error that is raised while `given` is parsed says in our words; None: it says nothing wrong."""
    match type(error).__name__:
        case "NoSuchOption":
            option = error.option_name
            return _unknown(_("there is no option {option}", option=option), _meant(option, ctx), ctx)
        case "BadOptionUsage":
            return _misused(error.option_name, ctx)
        case "MissingParameter":
            return _("{name} is missing; use: {usage}", name=_name(error.param), usage=_usage(ctx))
        case "BadParameter":
            return _refused(error, ctx, given)
        case "UsageError" if not isinstance(error.__cause__, UsageError):
            left = re.search(r"\(s\) \((.*)\)$", error.message, re.DOTALL)
            words = left[1] if left is not None else " ".join(given)
            hint = _hint(words.split(" ")[0], ctx, given)
            return _("unexpected: {words}; use: {usage}", words=words, usage=_usage(ctx)) + hint
    return None


def _unknown(sentence: str, near: str, ctx: Any) -> str:
    hint = _("did you mean {near}?", near=near) if near else _("`{command} --help` lists all", command=ctx.command_path)
    return f"{sentence}; {hint}"


def _meant(option: str, ctx: Any) -> str:
    """Returns the options of the command that its caller probably meant: by another program's name, or by spelling."""
    options = [spelling for parameter in ctx.command.params for spelling in parameter.opts if spelling[:2] == "--"]
    same = [known for known in options if option in _MEANT.get(known, "").split()]
    near = nearest(option.lstrip("-"), [known[2:] for known in options], most=1)
    return ", ".join(same) or (near and f"--{near}")


def _misused(option: str, ctx: Any) -> str:
    parameter = next(one for one in ctx.command.params if option in (*one.opts, *one.secondary_opts))
    if parameter.is_flag:
        return _("{option} takes no value: leave out what follows the =", option=option)
    if allowed := _allowed(parameter.type):
        return _("{option} needs a value: {allowed}", option=option, allowed=allowed)
    return _("{option} needs a value; `{command} --help` describes it", option=option, command=ctx.command_path)


def _hint(value: str, ctx: Any, given: list[str]) -> str:
    """Returns what the option that stands before a value takes if its caller probably meant it for its value."""
    before = next((before for before, word in pairwise(given) if word == value), None)
    for option in ctx.command.params:
        spellings = [*option.opts, *option.secondary_opts]
        if option.param_type_name == "option" and before in spellings:
            if not option.is_flag:
                return "; " + _("{option} takes {allowed}", option=before, allowed=option.metavar)
            if len(spellings) == 1:
                return "; " + _("{option} takes no value: leave out {value}", option=before, value=value)
            either = _(" or ").join(spellings)
            return "; " + _("{option} takes no value: write {either}", option=before, either=either)
    return ""


def _refused(error: Any, ctx: Any, given: list[str]) -> str:
    """Returns why a value is refused: as our parsers say it, or of a type of Typer's own by that type."""
    name, allowed = _name(error.param), _allowed(error.param.type)
    problem = None if error.__cause__ else error.__context__  # of Typer's types: ours name their cause
    if isinstance(problem, OSError):
        return f"{name}: {file_fault(problem.filename, problem)}" + _hint(str(problem.filename), ctx, given)
    if isinstance(problem, InvalidValueError):
        return str(problem.of(name)) + _hint(str(problem.given), ctx, given)
    if not allowed:
        return f"{name}: {error.message}"
    value = re.split(r" is not (?:a valid|in the range|one of) ", error.message)[0].strip("'")
    choices = _choices(error.param.type)
    return str(InvalidValueError(name, with_nearest(allowed, value, choices) if choices else allowed, value))


def _allowed(kind: Any) -> str:
    """Returns what a value of one of Typer's types must be; empty for types with parsers of ours."""
    if choices := _choices(kind):
        return _("one of {allowed}", allowed=", ".join(choices))
    if not kind.name.startswith(("int", "float")):
        return ""
    low, high = getattr(kind, "min", None), getattr(kind, "max", None)
    if kind.name.startswith("float"):
        return _("a number")
    if low is None:
        return _("a whole number")
    if high is None:
        return _("a whole number, {lowest:g} or more", lowest=low)
    return _("a whole number from {low:,} to {high:,}", low=low, high=high)


def _choices(kind: Any) -> list[str]:
    return [getattr(choice, "value", choice) for choice in getattr(kind, "choices", ())]


def _name(parameter: Any) -> str:
    """Returns what users call a parameter: the long option, or the placeholder of an argument."""
    return str(max(parameter.opts, key=len) if parameter.param_type_name == "option" else parameter.human_readable_name)


def _usage(ctx: Any) -> str:
    """Returns how a command is called."""
    words = [ctx.command_path]
    for parameter in ctx.command.params:
        if parameter.param_type_name == "argument":
            words.append(_name(parameter) if parameter.required else f"[{_name(parameter)}]")
        elif parameter.required:
            words.append(f"{_name(parameter)} {parameter.make_metavar(ctx=ctx)}")
    return " ".join([*words, "[OPTIONS]"])
