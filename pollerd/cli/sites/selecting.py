"""The option `--select`: what of a page counts."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

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
    found = _file(Path(text[1:])) if text.startswith("@") else _json(text, "--select")
    if not isinstance(found, dict):
        raise typer.BadParameter(f"must be {', '.join(f'{one}=...' for one in _KINDS)}, a JSON object, or @FILE")
    return {"default": found} if _OF_ONE & found.keys() else found


def _file(file: Path) -> Any:
    try:
        data = file.read_bytes()
        if file.suffix == ".toml":
            return tomllib.loads(data.decode())
        if file.suffix in (".yaml", ".yml"):
            import yaml  # only where a file is YAML

            return yaml.safe_load(data)
        return _json(data.decode(), str(file))
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise typer.BadParameter(f"{file}: {error}") from error
    except Exception as error:
        if type(error).__module__.startswith("yaml."):
            raise typer.BadParameter(f"{file}: {error}") from error
        raise


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"{where} is no JSON: {error}") from error


Select = Annotated[Any, typer.Option("--select", help=SELECT_HELP, parser=selections, metavar="SELECTION")]
