"""Options for the settings of sites and tags: one for each setting that the table gives a help text."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any

import typer

from pollerd.cli.options import (
    DURATION,
    NONE,
    TRUST,
    duration,
    json_in,
    settings_in,
    trust,
    windows,
    with_options,
    words_of,
)
from pollerd.errors import file_fault
from pollerd.site_settings import ACCESS_SETTINGS, INHERITED, SITE_SETTINGS, Kind, Setting
from pollerd.texts import _

_SELECTIONS = ("css", "xpath", "jsonpath")
_OF_ONE = frozenset({"steps", "values", "least", "conditions"})
Settings = Mapping[str, Any]
"""Settings by name as REST takes them, those that were given; None: taken away."""


def with_settings(
    settings: Mapping[str, Setting], *, none: str = "", before: str = ""
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Has a command take an option for each setting that has help, and passes those given as its parameter `settings`.

    none: the help of the word that takes a setting away; empty: that word is refused. before: starts each help text.
    """
    offered = {name: setting for name, setting in settings.items() if setting.cli}

    def finish(values: dict[str, Any]) -> Settings:
        return {name: _taken_away(offered[name]) if value == NONE else value for name, value in values.items()}

    return with_options("settings", [_parameter(setting, none, before) for setting in offered.values()], finish)


def _taken_away(setting: Setting) -> Any:
    """Returns what REST takes as no value of a setting: headers are never null."""
    return {} if setting.kind is Kind.HEADERS else None


def _parameter(setting: Setting, none: str, before: str) -> Parameter:
    can_go = bool(none) and setting.inherits  # another, such as the title, is never null
    help_ = f"{before}{setting.cli[0].lower()}{setting.cli[1:]}" if before else setting.cli
    parse, metavar = _PARSERS[setting.kind] if not setting.secret else (_secret(setting), _SECRETS[setting.kind])
    if can_go:
        help_, metavar = f"{help_} {NONE}: {none}", f"{metavar}|{NONE}"
    option = setting.option or setting.name.replace("_", "-")
    read = _reader(parse, none=can_go)
    about = typer.Option(f"--{option}", help=help_, parser=read, metavar=metavar, autocompletion=words_of(metavar))
    annotation = Annotated[Any, about]
    return Parameter(setting.name, Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _reader(parse: Callable[[str], Any], *, none: bool) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        if text == NONE and none:
            return NONE
        return parse(text)

    return read


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise typer.BadParameter(_("must be a number, or {none}; given: {text!r}", none=NONE, text=text)) from error


def _switch(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise typer.BadParameter(_("must be true or false; given: {text!r}", text=text))
    return text.lower() == "true"


def selections(text: str) -> dict[str, Any] | str:
    """Parses `--select`: returns selections by name, or `none` as given. Raises typer.BadParameter.

    An expression alone is JSONPath if it begins with $, XPath if it begins with / or (, else CSS.
    """
    if text == NONE:
        return NONE
    kind, equals, expression = text.partition("=")
    if equals and kind in _SELECTIONS:
        return {"default": {"steps": [{"keep": {kind: expression}}]}}
    if not text.startswith(("@", "{", "[")):
        kind = {"$": "jsonpath", "/": "xpath", "(": "xpath"}.get(text[:1], "css")
        return {"default": {"steps": [{"keep": {kind: text}}]}}
    document = settings_in(Path(text[1:])) if text.startswith("@") else json_in(text)
    if not isinstance(document, dict):
        raise typer.BadParameter(_("must be an expression such as css=#price, a JSON object, or @FILE"))
    return {"default": document} if _OF_ONE & document.keys() else document


def _plan(text: str) -> Any:
    if text == "browser":
        return text
    if not text.startswith(("@", "{")):
        raise typer.BadParameter(_("must be browser, a JSON object, or @FILE; given: {text!r}", text=text))
    return settings_in(Path(text[1:])) if text.startswith("@") else json_in(text)


def _secret(setting: Setting) -> Callable[[str], Any]:
    """Returns the parser of a secret, which can stand in a file: other users see the arguments of a command."""

    def read(text: str) -> Any:
        if setting.kind is not Kind.TEXT:
            try:
                document = settings_in(Path(text[1:])) if text.startswith("@") else json.loads(text)
            except ValueError as error:
                raise typer.BadParameter(_("must be a JSON object, or @FILE; what was given is not shown")) from error
            if not isinstance(document, dict):
                raise typer.BadParameter(_("must be a JSON object, or @FILE; what was given is not shown"))
            return document
        if not text.startswith("@"):
            return text
        try:
            return Path(text[1:]).read_text().removesuffix("\n")
        except (OSError, ValueError) as error:
            raise typer.BadParameter(file_fault(text[1:], error)) from error

    return read


_PARSERS: Mapping[Kind, tuple[Callable[[str], Any], str]] = {
    Kind.TEXT: (str, "TEXT"),
    Kind.SWITCH: (_switch, "true|false"),
    Kind.NUMBER: (_number, "NUMBER"),
    Kind.SECONDS: (duration, DURATION),
    Kind.SHARE: (str, "SHARE"),
    Kind.TRUST: (trust, TRUST),
    Kind.WINDOWS: (windows, "JSON"),
    Kind.SELECTIONS: (selections, "SELECTION"),
    Kind.RENDER: (_plan, "browser|JSON|@FILE"),
}
_SECRETS: Mapping[Kind, str] = {
    Kind.TEXT: "TEXT|@FILE",
    Kind.HEADERS: "JSON|@FILE",
    Kind.CREDENTIALS: "JSON|@FILE",
}
OF_SITES: Mapping[str, Setting] = {**SITE_SETTINGS, **ACCESS_SETTINGS}
OF_TAGS: Mapping[str, Setting] = {**INHERITED, **ACCESS_SETTINGS}
Select = Annotated[
    Any,
    typer.Option("--select", help=SITE_SETTINGS["selections"].cli, parser=selections, metavar="SELECTION"),
]
