"""The list of URLs: read at every start and at SIGHUP, block by block."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import structlog

from pollerd.api import Line, parse_text
from pollerd.daemon import Control
from pollerd.errors import ConfigError, InvalidValueError
from pollerd.model import SiteSpec

_LIST_BLOCK = 5_000
_REJECTED_SHOWN = 20


def check_list(path: Path) -> None:
    """Raises ConfigError where the list cannot be read."""
    if not path.is_fifo():  # what is read of a pipe is gone
        _open(path).close()


def list_at_once(path: Path) -> BytesIO:
    """The whole list, so that nothing of it counts where not all of it can be read, nor what is written meanwhile.

    Raises ConfigError where it cannot be read, or holds lines but none that can be used. Takes time: for a thread.
    """
    try:
        whole = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"urls: {path} cannot be read: {error.strerror}") from error
    refusal = None
    for _, spec in parse_text(BytesIO(whole)):
        if isinstance(spec, SiteSpec):
            return BytesIO(whole)
        refusal = refusal or spec
    if refusal is not None:
        raise ConfigError(f"urls: {path} has no line that can be used; the first: {refusal}")
    return BytesIO(whole)


async def read_list(path: Path, control: Control, *, sync: bool, file: BinaryIO | None = None) -> None:
    """Adds what is new in the URL list; with `sync` also removes what is not in it.

    `file`: what the list holds, where it was read before. Raises ConfigError where it cannot be read.
    """
    log = structlog.get_logger("pollerd.list").bind(file=str(path))
    listed, rejected = set[str](), 0
    added = existing = deleted = removed = 0
    lines = _lines(path) if file is None else parse_text(file)
    while block := await asyncio.to_thread(list, islice(lines, _LIST_BLOCK)):
        for line, refusal in block:
            if isinstance(refusal, InvalidValueError):
                rejected += 1
                if rejected <= _REJECTED_SHOWN:
                    log.warning("line_rejected", line=line, reason=str(refusal))
        specs = [spec for _, spec in block if isinstance(spec, SiteSpec)]
        if sync:
            listed.update(spec.url for spec in specs)
        result = await control.add_sites(specs, respect_deleted=not sync)
        for _, error in result.refused:
            log.warning("site_refused", reason=str(error))
        added, existing = added + len(result.added), existing + len(result.existing)
        deleted += len(result.deleted)
    if sync and (listed or not rejected):
        removed = await control.delete_missing(listed)
    elif sync:
        log.error("sync_refused", reason="no line of the list can be used: nothing is removed")
    log.info(
        "list_read", added=added, existing=existing, left_out_as_deleted=deleted, removed=removed, rejected=rejected
    )


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise ConfigError(f"urls: {path} cannot be read: {error.strerror}") from error


def _lines(path: Path) -> Iterator[Line]:
    """The list as it is asked for: a million sites need not be held at once."""
    with _open(path) as file:
        yield from parse_text(file)
