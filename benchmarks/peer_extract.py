"""Runs in the interpreter of urlwatch and webchanges: what their filters make of a page. Started by peers.py."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any


def by_urlwatch(filters: list[object], body: str) -> str:
    """What urlwatch makes of the body."""
    base: Any = import_module("urlwatch.filters").FilterBase
    job = SimpleNamespace(url="http://example.org/", get_location=lambda: "http://example.org/")
    state = SimpleNamespace(job=job)
    data: Any = body
    for kind, subfilter in base.normalize_filter_list(filters):
        data = base.process(kind, subfilter, state, data)
    return str(data)


def by_webchanges(filters: list[object], body: str, media: str) -> str:
    """What webchanges makes of the body."""
    base: Any = import_module("webchanges.filters").FilterBase
    job: Any = import_module("webchanges.jobs").UrlJob(url="http://example.org/", filters=filters)
    state = SimpleNamespace(job=job)
    data: Any = body
    for kind, subfilter in base.normalize_filter_list(filters, 1):
        data, media = base.process(kind, subfilter, state, data, media)
    return str(data)


def main() -> None:
    given = json.load(sys.stdin)
    outputs: list[dict[str, str | None]] = []
    for program, filters, media, body in given:
        try:
            made = by_urlwatch(filters, body) if program == "urlwatch" else by_webchanges(filters, body, media)
            outputs.append({"output": made})
        except ImportError as error:
            outputs.append({"output": None, "reason": f"needs {error.name or 'another package'}"})
    programs = {name: version(name) for name in ("urlwatch", "webchanges", "changedetection.io")}
    json.dump({"outputs": outputs, "versions": programs}, sys.stdout)


if __name__ == "__main__":
    main()
