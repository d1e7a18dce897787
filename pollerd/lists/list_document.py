"""Lists of sites as TOML or YAML documents, parsed into the fields of each site, with defaults applied.

    [defaults]                         defaults: {weight: 2, min_interval: 5m}
    weight = 2                         sites:
    min_interval = "5m"                  - https://example.org/news
    [[sites]]                            - url: https://example.org/members
    url = "https://example.org/"           credentials: {username: reader, password_file: members.pw}

    [tags.news]                          tags: {news: {min_interval: 15m}}
    min_interval = "15m"

    [[sources]]                          sources:
    url = "https://example.org/map.xml"    - https://example.org/map.xml

    [[signal_sources]]                   signal_sources:
    url = "https://example.org/map.xml"    - https://example.org/map.xml

The settings that the sites of a tag inherit stand under `tags`. `defaults` apply to every site of the file that does
not override them; null removes a default. Secrets may be in separate files: `password_file`, `token_file`,
`proxy_file`, and for a header `{file: NAME}`. The fields are validated where all lists are.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pollerd.errors import ConfigError, InvalidValueError, file_fault, kind_of, refusal
from pollerd.texts import _

MAX_BYTES = 16 * 1024 * 1024
"""Maximum size: such documents are read as a whole; longer lists must be CSV or JSON lines."""
MAX_DEPTH = 20
DOCUMENTS = frozenset({"toml", "yaml"})
FORMATS = {
    "": "text",
    ".txt": "text",
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".opml": "opml",
    ".xml": "opml",
    ".toml": "toml",
    ".yaml": "yaml",
    ".yml": "yaml",
}
"""Format of a list by the suffix of its file. `DOCUMENTS` are parsed here, other formats by the API."""
_MAX_SECRET_BYTES = 64 * 1024
SECTIONS = ("defaults", "tags", "sites", "sources", "signal_sources", "channels", "rules")
_CHANNEL_SECRETS = ("url", "secret", "previous_secret", "password", "token", "seed", "credentials")
_SECRETS = frozenset({"headers", "credentials", "body", "typed", "pdf_password"})
NOT_SHOWN = "(not shown)"

Entry = tuple[int, dict[str, Any] | InvalidValueError]
"""Number of the site in the file from 1, and its fields, or why it is invalid."""


def utf_16_of(beginning: bytes) -> str | None:
    """Returns the codec of a list in UTF-16, with a byte order mark or without; None: it is none."""
    if beginning.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    return {(True, False): "utf-16-be", (False, True): "utf-16-le"}.get(
        (beginning[:1] == b"\0", beginning[1:2] == b"\0")
    )


def as_utf_8(data: bytes) -> bytes:
    """Returns a list in UTF-16 as UTF-8, any other as it is."""
    codec = utf_16_of(data)
    return data if codec is None else data.decode(codec, "replace").removeprefix("\ufeff").encode("utf-8", "replace")


def format_of(file: Path) -> str:
    """Returns the format of the list; text for a name without a suffix. Raises `ConfigError` for an unknown one."""
    form = FORMATS.get(file.suffix.lower())
    if form is None:
        known = ", ".join(suffix for suffix in FORMATS if suffix)
        raise ConfigError(
            _(
                "unknown format {suffix}; known: {known}, and plain text without a suffix",
                suffix=file.suffix,
                known=known,
            )
        )
    return form


@dataclass(frozen=True, slots=True)
class ListDocument:
    """A list of sites with settings of tags."""

    entries: Iterator[Entry]
    tags: Mapping[str, dict[str, Any]]
    """The fields of each tag, by name."""
    sources: Sequence[dict[str, Any]] = ()
    """The fields of each source: a sitemap or feed whose pages become sites."""
    signal_sources: Sequence[dict[str, Any]] = ()
    """The fields of each signal source: a site or program that says when pages change."""
    channels: Sequence[dict[str, Any]] = ()
    """The fields of each channel, with the secrets of its files."""
    rules: Sequence[dict[str, Any]] = ()
    """The fields of each rule."""


def read_document(data: bytes, form: str, folder: Path) -> ListDocument:
    """Parses a document in the format `form` (toml, yaml).

    folder: base of relative names of secret files. An invalid site is yielded as its error. Raises `ConfigError` if the
    document as a whole cannot be parsed, or a tag of it cannot.
    """
    if len(data) > MAX_BYTES:
        raise ConfigError(
            _(
                "a list in {form} may have at most {max_bytes} bytes; longer ones are .csv or .jsonl",
                form=form.upper(),
                max_bytes=MAX_BYTES,
            )
        )
    data = as_utf_8(data)
    return _read(_toml(data) if form == "toml" else _yaml(data), folder)


def _read(document: object, folder: Path) -> ListDocument:
    if document is None:
        return ListDocument(iter(()), {})
    if not isinstance(document, dict):
        known = ", ".join(SECTIONS)
        raise ConfigError(
            _("a list must be a table, which can have {known}; given: {kind}", known=known, kind=kind_of(document))
        )
    unknown = sorted(str(name) for name in document.keys() - set(SECTIONS))
    if unknown:
        raise ConfigError(_("unknown {unknown}; known: {known}", unknown=", ".join(unknown), known=", ".join(SECTIONS)))
    sites = document.get("sites") or []
    if not isinstance(sites, list):
        raise ConfigError(_("sites must be a list of tables; given: {kind}", kind=kind_of(sites)))
    return ListDocument(
        _filled(_defaults(document.get("defaults")), sites, folder),
        _tags(document.get("tags"), folder),
        _urls_or_tables("sources", document.get("sources")),
        _urls_or_tables("signal_sources", document.get("signal_sources")),
        [_channel(place, table, folder) for place, table in enumerate(_tables("channels", document.get("channels")))],
        _tables("rules", document.get("rules")),
    )


def _tables(section: str, raw: object) -> list[dict[str, Any]]:
    """Returns a list of tables, without what is null."""
    if raw is None:
        return []
    if not isinstance(raw, list):
        raise ConfigError(_("{section} must be a list of tables; given: {kind}", section=section, kind=kind_of(raw)))
    tables = []
    for place, entry in enumerate(raw):
        if not isinstance(entry, dict):
            raise ConfigError(
                _(
                    "{section}[{place}] must be a table; given: {kind}",
                    section=section,
                    place=place,
                    kind=kind_of(entry),
                )
            )
        tables.append({str(name): value for name, value in entry.items() if value is not None})
    return tables


def _channel(place: int, channel: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Returns the fields of a channel with the contents of files in place of their names."""
    try:
        fields = _with_files_read(channel, "", _CHANNEL_SECRETS, folder)
        if isinstance(fields.get("headers"), dict):
            headers = fields["headers"].items()
            fields["headers"] = {str(name): _header(str(name), value, folder) for name, value in headers}
        if isinstance(fields.get("delivery"), dict):
            fields["delivery"] = _with_files_read(fields["delivery"], "delivery.", ("template",), folder)
    except InvalidValueError as error:
        raise ConfigError(f"channels[{place}].{error}") from error
    return fields


def _urls_or_tables(section: str, raw: object) -> list[dict[str, Any]]:
    if raw is None:
        return []
    if not isinstance(raw, list):
        raise ConfigError(_("{section} must be a list of tables; given: {kind}", section=section, kind=kind_of(raw)))
    tables = []
    for place, entry in enumerate(raw):
        fields = {"url": entry} if isinstance(entry, str) else entry
        if not isinstance(fields, dict):
            raise ConfigError(
                _(
                    "{section}[{place}] must be a URL, or a table with a url; given: {kind}",
                    section=section,
                    place=place,
                    kind=kind_of(entry),
                )
            )
        tables.append({str(name): value for name, value in fields.items() if value is not None})
    return tables


def _tags(value: object, folder: Path) -> dict[str, dict[str, Any]]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(_("tags must be a table; given: {kind}", kind=kind_of(value)))
    return {str(name): _tag(str(name), fields, folder) for name, fields in value.items()}


def _tag(name: str, raw: object, folder: Path) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise ConfigError(_("tags.{name} must be a table; given: {kind}", name=name[:100], kind=kind_of(raw)))
    try:
        return _fields({str(field): value for field, value in raw.items() if value is not None}, folder)
    except InvalidValueError as error:
        raise ConfigError(f"tags.{name[:100]}: {error}") from error


def _defaults(value: object) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(_("defaults must be a table; given: {kind}", kind=kind_of(value)))
    if "url" in value:
        raise ConfigError(_("defaults: url belongs to a site"))
    secret = sorted(_SECRETS & value.keys())
    if secret:
        raise ConfigError(
            _(
                "defaults: {secret} belong to a site: here they would be sent to every host of the list",
                secret=secret[0],
            )
        )
    render = value.get("render")
    steps = render.get("steps") if isinstance(render, dict) else None
    if isinstance(steps, list) and any(isinstance(step, dict) and "secret" in step for step in steps):
        raise ConfigError(
            _("defaults: render: a secret belongs to a site: here it would be typed at every host of the list")
        )
    return value


def _filled(defaults: Mapping[str, Any], sites: Iterable[object], folder: Path) -> Iterator[Entry]:
    for number, entry in enumerate(sites, 1):
        try:
            yield number, _entry(defaults, {"url": entry} if isinstance(entry, str) else entry, folder)
        except InvalidValueError as error:
            yield number, error


def _entry(defaults: Mapping[str, Any], raw: object, folder: Path) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise InvalidValueError("site", _("a URL, or a table with a url"), kind_of(raw))
    named = {str(name): value for name, value in {**defaults, **raw}.items() if value is not None}
    if "proxy" in raw:
        named = {name: value for name, value in named.items() if name != "proxy_file" or name in raw}
    elif "proxy_file" in raw:
        named.pop("proxy", None)
    return _fields(named, folder)


def _fields(named: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Returns the fields with the contents of files in place of their names."""
    fields = _with_files_read(named, "", ("proxy", "pdf_password"), folder)
    if isinstance(fields.get("credentials"), dict):
        credentials = {str(name): value for name, value in fields["credentials"].items()}
        fields["credentials"] = _with_files_read(credentials, "credentials.", ("password", "token"), folder)
    if isinstance(fields.get("headers"), dict):
        fields["headers"] = {str(name): _header(str(name), value, folder) for name, value in fields["headers"].items()}
    return fields


# --- secrets in separate files ---------------------------------------------------------------------------------------


def _with_files_read(fields: dict[str, Any], within: str, names: Iterable[str], folder: Path) -> dict[str, Any]:
    """Returns the fields with the contents of files in place of their names."""
    filled = dict(fields)
    for name in names:
        if f"{name}_file" in filled:
            file = filled.pop(f"{name}_file")
            if name in filled:
                raise refusal(f"{within}{name}", _("give {name} or {name}_file, not both", name=name))
            filled[name] = _secret(f"{within}{name}_file", file, folder)
    return filled


def _header(name: str, value: object, folder: Path) -> object:
    if not isinstance(value, dict):
        return value
    if value.keys() != {"file"}:
        raise InvalidValueError(f"headers.{name}", _("a text, or a table that holds file and nothing else"), NOT_SHOWN)
    return _secret(f"headers.{name}.file", value["file"], folder)


def _secret(field: str, file: object, folder: Path) -> str:
    """Returns the text of a file without surrounding white space. Errors name the file, never its contents."""
    if not isinstance(file, str):
        raise InvalidValueError(field, _("the name of a file"), kind_of(file))
    try:
        with (folder / file).open("rb") as opened:
            data = opened.read(_MAX_SECRET_BYTES + 1)
        text = data.decode("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise refusal(field, file_fault(folder / file, error), file) from error
    if len(data) > _MAX_SECRET_BYTES:
        raise InvalidValueError(
            field, _("a file of at most {max_secret_bytes} bytes", max_secret_bytes=_MAX_SECRET_BYTES), file
        )
    return text


# --- TOML and YAML ---------------------------------------------------------------------------------------------------


def _toml(data: bytes) -> object:
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(_("no TOML: {error}", error=error)) from error
    except RecursionError as error:
        raise ConfigError(_("no TOML that is nested at most {max_depth} deep", max_depth=MAX_DEPTH)) from error


def _yaml(data: bytes) -> object:
    """Parses the document by the safe loader, without aliases, which can expand a small document greatly."""
    import yaml

    base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc, valid-type]
        """Rejects duplicate keys: the last would silently win."""

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            seen: set[str] = set()
            for key in (key for key, _value in node.value if isinstance(key, yaml.ScalarNode)):
                if key.value in seen:
                    raise ConfigError(
                        _("line {line}: {key} is given twice", line=key.start_mark.line + 1, key=key.value[:100])
                    )
                seen.add(key.value)
            return dict(super().construct_mapping(node, deep))

    try:
        _check_events(yaml, yaml.parse(data, Loader=base))
        return yaml.load(data, Loader=Loader)
    except yaml.YAMLError as error:
        raise ConfigError(_message(error)) from error
    except ValueError as error:
        raise ConfigError(_("no YAML: it holds a number or a date that is none; texts like it need quotes")) from error


def _message(error: Any) -> str:
    """Returns the problem and its line. Omits PyYAML's excerpt of the document, which may be a secret."""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    return _(
        "{mark}no YAML: {problem}",
        mark="" if mark is None else _("line {line}: ", line=mark.line + 1),
        problem=problem or _("bytes that are no text"),
    )


def _check_events(yaml: Any, events: Iterable[Any]) -> None:
    """Rejects aliases and too deep nesting before anything is built."""
    depth = 0
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            raise ConfigError(
                _(
                    "line {line}: alias *{anchor} must be written out; what all sites have in common belongs under "
                    "defaults",
                    line=event.start_mark.line + 1,
                    anchor=event.anchor[:100],
                )
            )
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise ConfigError(
                    _(
                        "line {line}: nested deeper than {max_depth}",
                        line=event.start_mark.line + 1,
                        max_depth=MAX_DEPTH,
                    )
                )
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
