"""Backups of changedetection.io (zip), and its older file of all watches (`url-watches.json`)."""

from __future__ import annotations

import io
import json
import re
import zipfile
import zlib
from collections.abc import Mapping

import brotli

from pollerd.errors import ConfigError
from pollerd.moving.changedetection.instance import Instance, Item, Watch, table
from pollerd.moving.moved import RESULT_CHARACTERS, StoredResult
from pollerd.texts import N_, _

MAX_JSON_BYTES = 10 * 1024 * 1024
"""Size of one file in it, and of a `url-watches.json`."""
MAX_READ_BYTES = 200 * 1024 * 1024
"""All that is read of one backup."""
MAX_RESULTS_BYTES = 64 * 1024 * 1024
"""All that is read of the histories in one backup, for comparing results."""
MAX_RESULTS_CHARACTERS = 16_000_000
"""All that is kept of them."""
MAX_ENTRIES = 1_000_000
MAX_RATIO = 200
"""Of the size unpacked to the size packed; below `_SMALL` bytes anything may be."""
MAX_WATCHES = 100_000
_SMALL = 1024 * 1024
_LATEST = 1e11
"""Epoch s: later moments are none."""
_HEADERS_BYTES = 64 * 1024
_UUID = r"[0-9a-fA-F-]{32,36}"
_ENTRY = re.compile(rf"(?P<uuid>{_UUID})/(?P<name>watch\.json|tag\.json|restock_diff\.json|headers\.txt)")
_STORED = re.compile(rf"(?P<uuid>{_UUID})/(?P<name>history\.txt|[^/]+\.txt(\.br)?)")
_SETTINGS = "changedetection.json"
_OLD = "url-watches.json"
_KNOWN = frozenset({"watching", "settings", "note", "app_guid", "version_tag", "build_sha"})
_RESTOCK = "processor_config_restock_diff"
_NOT_IN_IT = (
    ("proxies.json", N_("is not part of a backup: watches that name its proxies get none")),
    (N_("headers.txt of all watches, and of groups"), N_("is not part of a backup")),
)


def read_backup(data: bytes) -> Instance:
    """Reads a backup, or a `url-watches.json`, from its bytes.

    No name of the zip is ever used as a path. Raises `ConfigError` for what is no such file or is too large.
    """
    if data[:4] == b"PK\x03\x04":
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                return _of_archive(archive)
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, zlib.error, EOFError) as error:
            raise ConfigError(_("the backup cannot be read: {error}", error=str(error)[:100])) from error
    if data.lstrip()[:1] == b"{":
        return _of_old(_json(data, _OLD), [], {})
    raise ConfigError(_("neither a backup of changedetection.io (zip) nor its url-watches.json"))


def _of_archive(archive: zipfile.ZipFile) -> Instance:
    entries = archive.infolist()
    if len(entries) > MAX_ENTRIES:
        raise ConfigError(
            _(
                "a backup may hold at most {max_entries} files; given: {count}",
                max_entries=MAX_ENTRIES,
                count=len(entries),
            )
        )
    reader, results = _Reader(archive), _results(archive)
    settings: Item | None = None
    parts: dict[str, dict[str, bytes]] = {}
    for entry in entries:
        match = _ENTRY.fullmatch(entry.filename)
        if entry.filename == _SETTINGS:
            settings = table(_json(reader.read(entry), _SETTINGS).get("settings"))
        elif match is not None:
            parts.setdefault(match["uuid"], {})[match["name"]] = reader.read(entry)
    old = next((entry for entry in entries if entry.filename == _OLD), None)
    if settings is None and old is not None:
        return _of_old(_json(reader.read(old), _OLD), list(_NOT_IN_IT), results)
    if settings is None:
        raise ConfigError(
            _("no backup of changedetection.io: it holds neither {settings} nor {old}", settings=_SETTINGS, old=_OLD)
        )
    return _of_parts(settings, parts, results)


def _results(archive: zipfile.ZipFile) -> dict[str, StoredResult]:
    """Returns by uuid what each watch kept last; a text that cannot be read is left out: only comparing needs it."""
    files: dict[str, dict[str, zipfile.ZipInfo]] = {}
    for entry in archive.infolist():
        match = _STORED.fullmatch(entry.filename)
        if match is not None:
            files.setdefault(match["uuid"], {})[match["name"]] = entry
    reader, results = _Reader(archive, MAX_RESULTS_BYTES), dict[str, StoredResult]()
    room = MAX_RESULTS_CHARACTERS
    for uuid, stored in files.items():
        if "history.txt" not in stored or room <= 0:
            continue
        try:
            at, name = _last_of(reader.read(stored["history.txt"]))
            data = reader.read(stored[name])
            text = _unpacked(data) if name.endswith(".br") else data
        except (ConfigError, KeyError, ValueError, brotli.error):
            continue
        results[uuid] = StoredResult(text.decode("utf-8", "replace")[:RESULT_CHARACTERS], at)
        room -= len(results[uuid].text)
    return results


def _last_of(history: bytes) -> tuple[float, str]:
    """Returns moment (epoch s) and file of the newest line of a history.txt. Raises `ValueError` if it has none."""
    lines = history.decode("utf-8", "replace").split("\n")
    pairs = [line.strip().partition(",") for line in lines]
    at, name = max((float(at), name) for at, comma, name in pairs if comma)
    if not 0.0 <= at < _LATEST:
        raise ValueError(at)
    return at, re.split(r"[/\\]", name)[-1]


def _unpacked(data: bytes) -> bytes:
    """Returns the beginning of what was packed with brotli, as long as a result may be."""
    return bytes(brotli.Decompressor().process(data, output_buffer_limit=4 * RESULT_CHARACTERS))


class _Reader:
    """Reads entries within the limits of size and ratio, whatever their headers say."""

    def __init__(self, archive: zipfile.ZipFile, most: int = MAX_READ_BYTES) -> None:
        self._archive, self._left = archive, most

    def read(self, entry: zipfile.ZipInfo) -> bytes:
        """Returns the content. Raises `ConfigError` if it is too large or was packed too well."""
        with self._archive.open(entry) as file:
            data = file.read(MAX_JSON_BYTES + 1)
        if len(data) > MAX_JSON_BYTES:
            raise ConfigError(
                _(
                    "a file of the backup has more than {max_json_bytes} MiB unpacked",
                    max_json_bytes=MAX_JSON_BYTES // 1024**2,
                )
            )
        if len(data) > _SMALL and len(data) > MAX_RATIO * max(entry.compress_size, 1):
            raise ConfigError(
                _("a file of the backup is more than {max_ratio} times as large unpacked", max_ratio=MAX_RATIO)
            )
        self._left -= len(data)
        if self._left < 0:
            raise ConfigError(
                _(
                    "the files of the backup have more than {max_read_bytes} MiB unpacked",
                    max_read_bytes=MAX_READ_BYTES // 1024**2,
                )
            )
        return data


def _of_parts(settings: Item, parts: dict[str, dict[str, bytes]], results: Mapping[str, StoredResult]) -> Instance:
    watches, groups, unread = list[Watch](), dict[str, Item](), list(_NOT_IN_IT)
    for uuid, files in parts.items():
        restock = files.get("restock_diff.json")
        for name in ("watch.json", "tag.json"):
            if name not in files:
                continue
            try:
                fields = _json(files[name], f"{uuid}/{name}")
                if restock is not None:
                    fields.setdefault(_RESTOCK, _restock(_json(restock, f"{uuid}/restock_diff.json")))
            except ConfigError as error:
                unread.append((f"{uuid}/{name}", str(error)))
                continue
            if name == "watch.json":
                watches.append(Watch(uuid, fields, _headers(files.get("headers.txt", b"")), results.get(uuid)))
            else:
                groups[uuid] = fields
    _check_number(len(watches))
    application = table(settings.get("application"))
    embedded = {uuid: table(tag) for uuid, tag in table(application.get("tags")).items()}
    application.pop("tags", None)
    return Instance(watches, {**embedded, **groups}, {**settings, "application": application}, unread)


def _restock(item: Item) -> Item:
    """Returns the settings of prices: the file holds them as they are, or below their name."""
    return table(item.get(_RESTOCK)) or table(item.get("restock_diff")) or item


def _of_old(document: Item, unread: list[tuple[str, str]], results: Mapping[str, StoredResult]) -> Instance:
    """Reads the older form: all watches and settings in one file."""
    watching, settings = document.get("watching"), table(document.get("settings"))
    if not isinstance(watching, dict):
        raise ConfigError(_("no {old}: it has no table of watches (watching)", old=_OLD))
    _check_number(len(watching))
    application = table(settings.get("application"))
    groups = {uuid: table(tag) for uuid, tag in table(application.pop("tags", None)).items()}
    watches = [
        Watch(str(uuid), _renewed(table(watch)), result=results.get(str(uuid))) for uuid, watch in watching.items()
    ]
    unread += [
        (key[:100], _("pollerd does not know this part of the file")) for key in sorted(document.keys() - _KNOWN)
    ]
    return Instance(watches, groups, {**settings, "application": application}, unread)


def _renewed(watch: Item) -> Item:
    """Returns a watch with fields of older versions in today's form."""
    selector = watch.pop("css_filter", None)
    if selector:
        watch["include_filters"] = [*_list(watch.get("include_filters")), *_list(selector)]
    minutes = watch.pop("minutes_between_check", None)
    if isinstance(minutes, int) and minutes > 0:
        watch["time_between_check"] = {"minutes": minutes}
        watch["time_between_check_use_default"] = False
    elif "time_between_check_use_default" not in watch and any(table(watch.get("time_between_check")).values()):
        watch["time_between_check_use_default"] = False
    for old, new in (("trigger", "trigger_text"), ("subtractive_selector", "subtractive_selectors")):
        if old in watch and new not in watch:
            watch[new] = watch.pop(old)
    return watch


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else [value] if value else []


def _check_number(number: int) -> None:
    if number > MAX_WATCHES:
        raise ConfigError(
            _(
                "at most {max_watches} watches can be moved at once; given: {number}",
                max_watches=MAX_WATCHES,
                number=number,
            )
        )


def _headers(data: bytes) -> dict[str, str]:
    """Returns the headers of a headers.txt: lines of `Name: value`, those that begin with # are comments."""
    lines = data[:_HEADERS_BYTES].decode("utf-8", "replace").splitlines()
    pairs = (line.strip().partition(":") for line in lines if not line.strip().startswith("#"))
    return {name.strip(): value.strip() for name, colon, value in pairs if colon and name.strip()}


def _json(data: bytes, name: str) -> Item:
    """Returns the table in a JSON file. Raises `ConfigError`, which shows nothing of it."""
    if len(data) > MAX_JSON_BYTES:
        raise ConfigError(
            _("{name} has more than {max_json_bytes} MiB", name=name, max_json_bytes=MAX_JSON_BYTES // 1024**2)
        )
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        where = f"line {error.lineno}: " if isinstance(error, json.JSONDecodeError) else ""
        raise ConfigError(_("{name}: {where}no JSON", name=name, where=where)) from error
    if not isinstance(document, dict):
        raise ConfigError(_("{name} must be a table; given: a {kind}", name=name, kind=type(document).__name__))
    return document
