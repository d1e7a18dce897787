"""Files of other programs to sites, for everyone who moves in: the command and the web pages use the same checks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pollerd.masking import NOT_SHOWN
from pollerd.moving.changedetection.backup import read_backup
from pollerd.moving.changedetection.watch import move
from pollerd.moving.fields import sendable
from pollerd.moving.moved import Moved
from pollerd.moving.urlwatch.dialect import URLWATCH, WEBCHANGES
from pollerd.moving.urlwatch.jobs import read_jobs

CHANGEDETECTION = "changedetection"
_DIALECTS = {"urlwatch": URLWATCH, "webchanges": WEBCHANGES}
PROGRAMS = (*_DIALECTS, CHANGEDETECTION)
_SECRET = ("headers", "credentials", "proxy", "pdf_password", "body", "render")


def moved_of_file(program: str, data: bytes, config: bytes | None = None, *, exact: bool = False) -> Moved:
    """Converts a file of one of `PROGRAMS`.

    config: settings of urlwatch or webchanges; exact: compare sources of pages as the program does. Raises
    `ConfigError` for a file that cannot be read.
    """
    if program == CHANGEDETECTION:
        return sendable(move(read_backup(data), exact=exact))
    return sendable(read_jobs(data, _DIALECTS[program], config, exact=exact))


def json_lines(moved: Moved) -> bytes:
    """Returns the sites as a list that is imported, one a line."""
    return "\n".join(json.dumps(site, default=str) for site in moved.sites).encode()


def without_secrets(site: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a site as it may be shown: of headers the names, of all else that may be secret nothing."""
    shown = {name: NOT_SHOWN if name in _SECRET else value for name, value in site.items()}
    if isinstance(site.get("headers"), Mapping):
        shown["headers"] = dict.fromkeys(site["headers"], NOT_SHOWN)
    return shown
