"""Errors of the command line's grammar, in the words of all other errors; Typer's own are of another style."""

from __future__ import annotations

import re
from typing import Any

import typer

from pollerd.errors import InvalidValueError, nearest, with_nearest
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


def word(command: Any) -> None:
    """Has a command, which Typer made, refuse a wrong command line in our words."""
    parse, resolve = command.parse_args, getattr(command, "resolve_command", None)

    def parse_args(ctx: Any, args: list[str]) -> Any:
        given = list(args)
        try:
            return parse(ctx, args)
        except UsageError as error:
            message = _reworded(error, ctx, given)
            if message is None:
                raise
            raise UsageError(message, ctx) from error

    def resolve_command(ctx: Any, args: list[str]) -> Any:
        name = args[0]
        if name not in command.commands and not name.startswith("-"):
            near = nearest(name, command.commands, most=1)
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
            return _refused(error)
        case "UsageError" if not isinstance(error.__cause__, UsageError):
            left = re.search(r"\(s\) \((.*)\)$", error.message, re.DOTALL)
            words = left[1] if left is not None else " ".join(given)
            return _("unexpected: {words}; use: {usage}", words=words, usage=_usage(ctx))
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


def _refused(error: Any) -> str:
    """Returns why a value is refused: as our parsers say it, or of a type of Typer's own by that type."""
    name, allowed = _name(error.param), _allowed(error.param.type)
    problem = None if error.__cause__ else error.__context__  # of Typer's types: ours name their cause
    if isinstance(problem, OSError):
        return _("{name}: {file} cannot be read: {reason}", name=name, file=problem.filename, reason=problem.strerror)
    if isinstance(problem, InvalidValueError):
        return str(problem.of(name))
    if not allowed:
        return f"{name}: {error.message}"
    given = re.split(r" is not (?:a valid|in the range|one of) ", error.message)[0].strip("'")
    choices = _choices(error.param.type)
    return str(InvalidValueError(name, with_nearest(allowed, given, choices) if choices else allowed, given))


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
