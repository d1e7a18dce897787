"""Sending a long list of sites: in blocks, so that the daemon is never silent for long, with progress."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pollerd.api.formats import Format
from pollerd.cli.client import Client
from pollerd.cli.progress import showing_progress
from pollerd.wording import counted

REJECTED_ENOUGH = 1_000
_MOST_REJECTED = 100_000
"""More the daemon does not tell of in one answer."""
_BLOCK_LINES = 5_000
"""As many as the daemon takes in one transaction: a fraction of a second."""
_BYTES_A_SECOND = 100_000
"""At least so much of a document that cannot be divided is taken in on a slow machine."""


def send_list(daemon: Client, data: bytes, form: Format, max_rejected: int = REJECTED_ENOUGH) -> dict[str, Any]:
    """Imports the list; what became of it as `POST /sites/import` answers, with the line numbers of the whole list.

    After `max_rejected` bad lines the rest is not sent. Raises `CallError`; what was sent before that is in, and
    sending the list again adds nothing twice.
    """
    if form is Format.OPML:  # a tree, of which no part stands alone
        return _sent(daemon, data, form, max_rejected, patience_for(daemon, len(data)))
    lines = data.splitlines(keepends=True)
    total: dict[str, Any] = {"added": 0, "existing": 0, "rejected": [], "rejected_count": 0}
    total |= {"lines_read": 0, "stopped": None}
    with showing_progress("import", "lines") as told:
        for before, block in _blocks(lines, with_header=form is Format.CSV):
            left = max_rejected - total["rejected_count"]
            found = _sent(daemon, b"".join(block), form, left, None) if left else None
            if found is not None:
                _add(total, found, before)
            if found is None or found["stopped"] is not None:
                total["stopped"] = _stopped(total)
                break
            told(min(before + len(block), len(lines)), len(lines))
    return total


def _add(total: dict[str, Any], found: dict[str, Any], before: int) -> None:
    """What became of one block, whose first line is `before` lines further on in the list."""
    for rejected in found["rejected"]:
        rejected["line"] += before
    for name in ("added", "existing", "rejected", "rejected_count"):
        total[name] += found[name]
    total["lines_read"] = before + found["lines_read"]


def _stopped(total: dict[str, Any]) -> str:
    rejected = counted(total["rejected_count"], "bad line")
    return f"{rejected}: read up to line {total['lines_read']}, no further; what was added stays"


def patience_for(daemon: Client, size: int) -> float:
    """Seconds that the daemon may be silent over a document of `size` bytes that is sent whole."""
    return daemon.timeout + size / _BYTES_A_SECOND


def _blocks(lines: list[bytes], *, with_header: bool) -> Iterator[tuple[int, list[bytes]]]:
    """(what to add to its line numbers, lines) of each block; with the header before each. At least one block."""
    head = lines[: _header_length(lines)] if with_header else []
    rest = lines[len(head) :]
    for start in range(0, max(len(rest), 1), _BLOCK_LINES):
        yield start, [*head, *rest[start : start + _BLOCK_LINES]]


def _header_length(lines: list[bytes]) -> int:
    """How many lines there are up to the first that says something: the header."""
    return next((n for n, line in enumerate(lines, 1) if line.removeprefix(b"\xef\xbb\xbf").strip()), 0)


def _sent(daemon: Client, data: bytes, form: Format, max_rejected: int, patience: float | None) -> dict[str, Any]:
    path = f"/sites/import?max_rejected={min(max_rejected, _MOST_REJECTED)}"
    found: dict[str, Any] = daemon.upload(path, data, form.media, timeout=patience)
    return found
