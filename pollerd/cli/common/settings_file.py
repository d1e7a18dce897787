"""Reads settings that a user wrote: JSON, TOML or YAML, by the name of the file."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import typer

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
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise typer.BadParameter(f"{file}: {error}") from error


def table_in(file: Path | None) -> dict[str, Any]:
    """Returns the table that a file holds, with texts in place of dates; empty without one. Raises BadParameter."""
    if file is None:
        return {}
    found = settings_in(file)
    if not isinstance(found, dict):
        raise typer.BadParameter(f"{file} must hold one object")
    plain: dict[str, Any] = json.loads(json.dumps(found, default=str))
    return plain


def json_in(text: str, where: str) -> Any:
    """Returns the value of a JSON text; where: what errors call it. Raises typer.BadParameter."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"{where} is no JSON: {error}") from error


def _yaml(data: bytes, file: Path) -> Any:
    import yaml  # only where a file is YAML

    try:
        return yaml.safe_load(data)
    except yaml.YAMLError as error:
        raise typer.BadParameter(f"{file}: {error}") from error
