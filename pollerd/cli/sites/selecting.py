"""The option `--select`: what of a page counts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pollerd.cli.common.settings_file import json_in, settings_in

SELECT_HELP = (
    "What of the page counts: css=SELECTOR, xpath=EXPRESSION, jsonpath=PATH, JSON as in docs/selections.md, or @FILE "
    "(.json, .toml, .yaml)."
)
_KINDS = ("css", "xpath", "jsonpath")
_OF_ONE = frozenset({"steps", "values", "least", "conditions"})
NONE = "none"


def selections(text: str) -> dict[str, Any] | str:
    """Parses the option: returns selections by name, or `none` as given. Raises typer.BadParameter."""
    if text == NONE:
        return NONE
    kind, equals, expression = text.partition("=")
    if equals and kind in _KINDS:
        return {"default": {"steps": [{"keep": {kind: expression}}]}}
    found = settings_in(Path(text[1:])) if text.startswith("@") else json_in(text, "--select")
    if not isinstance(found, dict):
        raise typer.BadParameter(f"must be {', '.join(f'{one}=...' for one in _KINDS)}, a JSON object, or @FILE")
    return {"default": found} if _OF_ONE & found.keys() else found


Select = Annotated[Any, typer.Option("--select", help=SELECT_HELP, parser=selections, metavar="SELECTION")]
