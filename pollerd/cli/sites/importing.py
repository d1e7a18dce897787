"""Sends a list of sites or a document to the daemon: in blocks, so that it is never silent for long."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pollerd.api.http.format_names import Format
from pollerd.cli.client.client import ApiClient
from pollerd.cli.common.call_errors import CallError
from pollerd.cli.common.progress import showing_progress
from pollerd.cli.sites.named import id_of
from pollerd.errors import ConfigError, InvalidValueError
from pollerd.list_document import DOCUMENTS, NOT_SHOWN, Entry, read_document
from pollerd.quantities import counted
from pollerd.urls import normalise_url

REJECTED_ENOUGH = 1_000
_MOST_REJECTED = 100_000
"""Maximum number of rejected lines that the daemon reports in one answer."""
BLOCK_LINES = 5_000
"""Lines that the daemon stores in one transaction: a fraction of a second."""
_BYTES_A_SECOND = 100_000
"""Minimum processing speed of an indivisible document on a slow machine."""


@dataclass(frozen=True, slots=True)
class SentList:
    """A list in the form that is sent to the daemon.

    Documents are sent as JSON lines: they name secret files that exist only on this machine, and that no daemon should
    read for a caller.
    """

    form: Format
    data: bytes
    numbers: Sequence[int] | None = None
    """Of a document: the number of the site in each line."""
    refused: Sequence[dict[str, Any]] = ()
    """Of a document: sites that cannot be sent, in the form of the daemon's rejections."""
    tags: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    """Of a document: the settings of tags."""
    sources: Sequence[dict[str, Any]] = ()
    """Of a document: its sources."""
    signal_sources: Sequence[dict[str, Any]] = ()
    """Of a document: its signal sources."""
    channels: Sequence[dict[str, Any]] = ()
    rules: Sequence[dict[str, Any]] = ()

    @property
    def not_sent(self) -> list[str]:
        """The channels and rules it names: an import takes them only from the list a daemon runs with."""
        named = {"channel": self.channels, "rule": self.rules}
        return [f"{kind} {one.get('name', '?')}" for kind, items in named.items() for one in items]

    @property
    def place(self) -> str:
        """The unit of its numbers."""
        return "line" if self.numbers is None else "entry"

    def number(self, line: int) -> int:
        """Returns the number in the list of a sent line, from 1; 0 stays 0."""
        return line if self.numbers is None or not 0 < line <= len(self.numbers) else self.numbers[line - 1]


def list_of(data: bytes, form: str, folder: Path) -> SentList:
    """Converts the list in `data`, in format `form`; names of secret files are relative to `folder`.

    Raises `CallError` for a document that cannot be parsed as a whole.
    """
    if form not in DOCUMENTS:
        return SentList(Format(form), data)
    try:
        document = read_document(data, form, folder)
        entries = list(document.entries)
        entries += _sites_of(document.signal_sources, entries)
    except ConfigError as error:
        raise CallError(str(error)) from error
    lines, numbers, refused = list[str](), list[int](), list[dict[str, Any]]()
    for number, entry in entries:
        try:
            line = _line(entry)
        except InvalidValueError as error:
            refused.append({"line": number, "reason": str(error)})
        else:
            lines.append(line)
            numbers.append(number)
    return SentList(
        Format.JSON_LINES,
        "\n".join(lines).encode(),
        numbers,
        refused,
        tags=document.tags,
        sources=document.sources,
        signal_sources=document.signal_sources,
        channels=document.channels,
        rules=document.rules,
    )


def _sites_of(signal_sources: Sequence[dict[str, Any]], entries: Sequence[Entry]) -> list[Entry]:
    """Returns the sites of signal sources that the list does not name: they belong to it."""
    named = {_normalised(str(entry["url"])) for _, entry in entries if isinstance(entry, dict) and "url" in entry}
    urls = {_normalised(one["url"]): None for one in signal_sources if isinstance(one.get("url"), str)}
    missing = [url for url in urls if url not in named]
    return [(len(entries) + place, {"url": url}) for place, url in enumerate(missing, 1)]


def _normalised(url: str) -> str:
    """Returns the normalised URL; as it is one that cannot be: the daemon refuses it."""
    try:
        return normalise_url(url)
    except InvalidValueError:
        return url


def _line(entry: dict[str, Any] | InvalidValueError) -> str:
    """Returns a site of a document as a JSON line. Raises `InvalidValueError` if that is impossible."""
    if isinstance(entry, InvalidValueError):
        raise entry
    try:
        return json.dumps(entry, default=str, allow_nan=False)
    except (TypeError, ValueError) as error:  # dates may be field names, and YAML has .nan
        raise InvalidValueError("site", "texts, numbers and tables with names that are texts", NOT_SHOWN) from error


def send_list(daemon: ApiClient, sent: SentList, max_rejected: int = REJECTED_ENOUGH) -> dict[str, Any]:
    """Imports the list; returns the answer of `POST /sites/import`, with the line numbers of the whole list.

    Stops sending after `max_rejected` bad lines. Raises `CallError`; what was sent before stays, and sending the list
    again adds nothing twice.
    """
    send_tags(daemon, sent.tags)
    if sent.form is Format.OPML:  # a tree, which cannot be divided
        return _sent(daemon, sent.data, sent.form, max_rejected, patience_for(daemon, len(sent.data)))
    lines = sent.data.splitlines(keepends=True)
    total: dict[str, Any] = {"added": 0, "existing": 0, "rejected": list(sent.refused)}
    total |= {"rejected_count": len(sent.refused), "lines_read": 0, "stopped": None}
    with showing_progress("import", "lines") as report_progress:
        for before, block in _blocks(lines, with_header=sent.form is Format.CSV):
            left = max_rejected - total["rejected_count"]
            found = _sent(daemon, b"".join(block), sent.form, left, None) if left > 0 else None
            if found is not None:
                _add(total, found, before, sent)
            if found is None or found["stopped"] is not None:
                total["stopped"] = _stopped(total, sent.place)
                break
            report_progress(min(before + len(block), len(lines)), len(lines))
    total["rejected"].sort(key=lambda one: int(one["line"]))
    if total["stopped"] is None:
        send_sources(daemon, sent.sources)
        send_signal_sources(daemon, sent.signal_sources)
    return {**total, "not_read": sent.not_sent} if sent.not_sent else total


def send_sources(daemon: ApiClient, sources: Sequence[dict[str, Any]]) -> None:
    """Adds those of the sources that are not there."""
    new = daemon.call("POST", "/sources/diff", {"sources": sendable(sources)})["added"] if sources else []
    for source in sources:
        if normalise_url(source["url"]) in new:
            daemon.call("POST", "/sources", source)


def send_signal_sources(daemon: ApiClient, listed: Sequence[dict[str, Any]]) -> None:
    """Adds those of the signal sources that are not there, after their sites: a list that is imported only adds."""
    body = {"signal_sources": sendable(listed)}
    new = daemon.call("POST", "/signal-sources/diff", body)["added"] if listed else []
    for one in body["signal_sources"]:
        url = one.pop("url", None)
        if url is None and one.get("name") in new:
            daemon.call("POST", "/signal-sources", one)
        elif url is not None and normalise_url(url) in new:
            daemon.call("POST", "/signal-sources", {"kind": "sitemap", **one, "site_id": id_of(daemon, url)})


def sendable(value: Any) -> Any:
    """Returns tags or sources as JSON holds them: texts in place of dates."""
    return json.loads(json.dumps(value, default=str))


def send_tags(daemon: ApiClient, tags: Mapping[str, dict[str, Any]]) -> None:
    """Gives settings to those of the tags that have none: as with sites, a list only adds."""
    there = {tag["name"] for tag in daemon.call("GET", "/tags")["items"]} if tags else set[str]()
    for name, settings in tags.items():
        if name not in there:
            daemon.call("PUT", f"/tags/{quote(name, safe='')}", settings)


def _add(total: dict[str, Any], found: dict[str, Any], before: int, sent: SentList) -> None:
    """Adds the result of one block that begins after `before` further lines of what is sent."""
    for rejected in found["rejected"]:
        rejected["line"] = sent.number(before + rejected["line"])
    for name in ("added", "existing", "rejected", "rejected_count"):
        total[name] += found[name]
    total["lines_read"] = sent.number(before + found["lines_read"])


def _stopped(total: dict[str, Any], place: str) -> str:
    rejected = counted(total["rejected_count"], f"bad {place}", None if place == "line" else "bad entries")
    return f"{rejected}: read up to {place} {total['lines_read']}, no further; what was added stays"


def patience_for(daemon: ApiClient, size: int) -> float:
    """Returns the seconds that the daemon may be silent after a document of `size` bytes sent whole."""
    return daemon.timeout + size / _BYTES_A_SECOND


def _blocks(lines: list[bytes], *, with_header: bool) -> Iterator[tuple[int, list[bytes]]]:
    """Yields (offset of its line numbers, lines) of each block, with the header before each. At least one block."""
    head = lines[: _header_length(lines)] if with_header else []
    rest = lines[len(head) :]
    for start in range(0, max(len(rest), 1), BLOCK_LINES):
        yield start, [*head, *rest[start : start + BLOCK_LINES]]


def _header_length(lines: list[bytes]) -> int:
    """Returns the number of lines up to the first that is not blank: the header."""
    return next((n for n, line in enumerate(lines, 1) if line.removeprefix(b"\xef\xbb\xbf").strip()), 0)


def _sent(daemon: ApiClient, data: bytes, form: Format, max_rejected: int, patience: float | None) -> dict[str, Any]:
    path = f"/sites/import?max_rejected={min(max_rejected, _MOST_REJECTED)}"
    found: dict[str, Any] = daemon.upload(path, data, form.media, timeout=patience)
    return found
