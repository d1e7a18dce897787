"""Options shared by commands, groups of options, and settings read from files."""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import stat
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from inspect import Parameter
from pathlib import Path, PurePath
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from pollerd import quantities
from pollerd.errors import InvalidValueError, file_fault, refusal
from pollerd.site_settings import RespectTtl
from pollerd.texts import N_, _
from pollerd.timestamps import parse_moment

DURATION = "DURATION"
"""Placeholder of a duration in help: 30s, 5m, 1.5h, 2d."""


def duration(text: str | float) -> float:
    """Returns the seconds of a duration given by the user. Raises BadParameter."""
    if not isinstance(text, str):
        return text
    try:
        return quantities.seconds(text)
    except ValueError as error:
        raise typer.BadParameter(
            _("must be {duration}; given: {text!r}", duration=_(quantities.DURATION), text=text)
        ) from error


def words_of(*placeholders: str) -> Callable[[str], list[str]]:
    """Returns what completes a value: the words of placeholders such as off|hint|strict or DURATION|none."""
    words = [word for placeholder in placeholders for word in placeholder.split("|") if word.islower()]
    return lambda incomplete: [word for word in words if word.startswith(incomplete)]


def time_in(text: str, two_hours: str) -> str:
    """Returns a time as the API takes it; two_hours: what 2h would mean. Raises typer.BadParameter."""
    try:
        parse_moment("time", text)
    except InvalidValueError as error:
        allowed = N_("must be 2h ({two_hours}), or a time such as 2026-01-31T12:00:00Z; given: {text!r}")
        raise typer.BadParameter(_(allowed, two_hours=two_hours, text=text)) from error
    return text


NONE = "none"
"""Word that takes a setting away."""
WINDOWS = "Polling hours, as JSON."


def windows(text: Any) -> Any:
    """Returns the JSON of windows given by the user, and `NONE` as it is. Raises BadParameter."""
    if not isinstance(text, str) or text == NONE:
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        example = '{"zone": "Europe/Berlin", "open": [{"from": "08:00", "to": "18:00"}]}'
        raise typer.BadParameter(_("must be JSON, for example {example}", example=example)) from error


TRUST = "off|hint|strict"
"""Placeholder of how far a site's TTL is believed."""


def trust(text: str) -> str:
    """Returns how far a site's TTL is believed, as given by the user, and `NONE` as it is. Raises BadParameter."""
    if text != NONE:
        try:
            RespectTtl.of(text)
        except ValueError as error:
            raise typer.BadParameter(_("must be {error}; given: {text!r}", error=error, text=text)) from error
    return text


def _silence(text: str | float) -> float:
    seconds = duration(text)
    if not 0 < seconds < math.inf:
        raise typer.BadParameter(_("must be above 0; given: {text!r}", text=text))
    return seconds


Url = Annotated[
    str | None,
    typer.Option(
        "--url", help="Address of the daemon, or POLLERD_URL. Default: http://127.0.0.1:8080.", show_default=False
    ),
]
Token = Annotated[str | None, typer.Option(help="Token; better set as POLLERD_TOKEN or POLLERD_TOKEN_FILE.")]
Timeout = Annotated[
    float,
    typer.Option(
        help="How long to wait for the daemon. Default: 10s.", parser=_silence, metavar=DURATION, show_default=False
    ),
]
Rebase = Annotated[
    str | None,
    typer.Option(
        help="After an edit of selections: `keep` compares the next poll with the previous one, `anew` starts over. "
        "Default: keep if nothing was selected last.",
        metavar="keep|anew",
        autocompletion=words_of("keep|anew"),
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def existing_file(text: str) -> Path:
    """Returns the path of a file that a command reads. Raises InvalidValueError if it is missing, or is a folder."""
    path = Path(text)
    try:
        if stat.S_ISDIR(path.stat().st_mode):
            raise IsADirectoryError
    except OSError as error:
        raise refusal("file", file_fault(path, error), text) from error
    return path


Database = Annotated[str | None, typer.Option(help="sqlite+aiosqlite:///FILE or postgresql+asyncpg://...")]
ConfigFile = Annotated[Path | None, typer.Option("--config", help="TOML file; also POLLERD_CONFIG.")]


# Groups of options: a dataclass whose fields are options of a command.


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Has a command take the fields of its parameters that are dataclasses as options of its own.

    The fields are annotated as parameters of commands are. In the help they stand where the dataclass stands among the
    parameters; those follow a `*`, because Typer passes all by name.
    """
    parameters, groups = list[Parameter](), dict[str, type]()
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        if isinstance(parameter.annotation, type) and dataclasses.is_dataclass(parameter.annotation):
            groups[parameter.name] = parameter.annotation
            parameters += _options(parameter.annotation)
        else:
            parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))

    @wraps(command)
    def called(**arguments: Any) -> None:
        made = {name: _taken(group, arguments) for name, group in groups.items()}
        command(**arguments, **made)

    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # Typer reads it
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called


def with_options(
    name: str, options: Sequence[Parameter], finish: Callable[[dict[str, Any]], Mapping[str, Any]] = dict
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorates a command: the options of a table replace its parameter `name`, which receives the given ones.

    finish: converts them before they are passed. The help lists the options at the place of the parameter; the
    parameters after it are passed by name.
    """

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        parameters = list[Parameter]()
        for parameter in inspect.signature(command, eval_str=True).parameters.values():
            if parameter.name == name:
                parameters += options
            else:
                parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))

        @wraps(command)
        def called(**arguments: Any) -> None:
            values = {option.name: arguments.pop(option.name) for option in options}
            taken = {option: value for option, value in values.items() if value is not None}
            command(**{name: finish(taken)}, **arguments)

        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # Typer reads it
        called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return called

    return decorated


def _options(group: type) -> Iterator[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    for field in dataclasses.fields(group):
        yield Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name])


def _taken(group: type, arguments: dict[str, Any]) -> Any:
    """Returns the group, and removes its options from what was given."""
    return group(**{field.name: arguments.pop(field.name) for field in dataclasses.fields(group)})


# The format of a file, by its name.

T = TypeVar("T")


def by_suffix(name: str | PurePath | None, known: Mapping[str, T], default: T) -> T:
    """Returns the format of a file by its suffix; `default` without a file (None, "-" or a stream) or a suffix.

    Raises `InvalidValueError` for an unknown suffix: a list under a wrong name is worse than none.
    """
    suffix = "" if name is None else PurePath(name).suffix.lower()
    if suffix and suffix not in known:
        allowed = _("a name that ends with {known}, or use --format", known=", ".join(known))
        raise InvalidValueError("file", allowed, str(name))
    return known.get(suffix, default)


# Settings that a user wrote as JSON, TOML or YAML, by the name of the file.

STDIN = "-"


def settings_in(file: Path) -> Any:
    """Returns the value that a file holds; `-` is standard input, as JSON. Raises typer.BadParameter."""
    try:
        data = sys.stdin.buffer.read() if str(file) == STDIN else file.read_bytes()
        if file.suffix == ".toml":
            return tomllib.loads(data.decode())
        if file.suffix in (".yaml", ".yml"):
            return _yaml(data, file)
        return json_in(data.decode(), str(file))
    except OSError as error:
        raise typer.BadParameter(file_fault(file, error)) from error
    except ValueError as error:
        raise typer.BadParameter(f"{file}: {error}") from error


def table_in(file: Path | None) -> dict[str, Any]:
    """Returns the table that a file holds, with texts in place of dates; empty without one. Raises BadParameter."""
    if file is None:
        return {}
    table = settings_in(file)
    if not isinstance(table, dict):
        raise typer.BadParameter(_("{file} must hold one object", file=file))
    plain: dict[str, Any] = json.loads(json.dumps(table, default=str))
    return plain


def json_in(text: str, where: str = "") -> Any:
    """Returns the value of a JSON text; where: its file. Raises typer.BadParameter."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = _("line {lineno}, column {colno}", lineno=error.lineno, colno=error.colno)
        reason = _("not valid JSON: {msg} ({place})", msg=error.msg.lower(), place=place)
        raise typer.BadParameter(f"{where}: {reason}" if where else reason) from error


def _yaml(data: bytes, file: Path) -> Any:
    import yaml  # only where a file is YAML

    try:
        return yaml.safe_load(data)
    except yaml.YAMLError as error:
        raise typer.BadParameter(f"{file}: {error}") from error
