"""Options shared by commands, and parsing of durations."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated, Any

import typer

from pollerd import quantities
from pollerd.model import RespectTtl

DURATION = "DURATION"
"""Placeholder of a duration in help: 30s, 5m, 1.5h, 2d."""


def duration(text: str | float) -> float:
    """Returns the seconds of a duration given by the user. Raises BadParameter."""
    if not isinstance(text, str):
        return text
    try:
        return quantities.seconds(text)
    except ValueError as error:
        raise typer.BadParameter(f"must be {quantities.DURATION}; given: {text!r}") from error


NONE = "none"
"""Word that takes a setting away."""
WINDOWS = "When sites may be polled: JSON, as the API takes it."


def windows(text: Any) -> Any:
    """Returns the JSON of windows given by the user, and `NONE` as it is. Raises BadParameter."""
    if not isinstance(text, str) or text == NONE:
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        example = '{"zone": "Europe/Berlin", "open": [{"from": "08:00", "to": "18:00"}]}'
        raise typer.BadParameter(f"must be JSON, as {example}") from error


TRUST = "off|hint|strict"
"""Placeholder of how far a site's TTL is believed."""


def trust(text: str) -> str:
    """Returns how far a site's TTL is believed, as given by the user, and `NONE` as it is. Raises BadParameter."""
    if text != NONE:
        try:
            RespectTtl.of(text)
        except ValueError as error:
            raise typer.BadParameter(f"must be {error}; given: {text!r}") from error
    return text


def _silence(text: str | float) -> float:
    seconds = duration(text)
    if not 0 < seconds < math.inf:
        raise typer.BadParameter(f"must be above 0; given: {text!r}")
    return seconds


Url = Annotated[str | None, typer.Option("--url", help="The daemon; also POLLERD_URL.", show_default=False)]
Token = Annotated[str | None, typer.Option(help="Better given as POLLERD_TOKEN or POLLERD_TOKEN_FILE.")]
Timeout = Annotated[
    float,
    typer.Option(help="How long the daemon may be silent.", parser=_silence, metavar=DURATION, show_default="10s"),
]
Rebase = Annotated[
    str | None,
    typer.Option(
        help="With an edit of selections: keep compares the next poll with the content before, anew begins anew. "
        "Left out: keep if nothing was selected last.",
        metavar="keep|anew",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="JSON, as the API has it.")]
ConfigFile = Annotated[Path | None, typer.Option("--config", help="TOML file; also POLLERD_CONFIG.")]
