"""Settings from flags, environment and TOML, in this order of precedence. The only reader of the environment.

Every setting is one field of `Options`: `--host-interval` is `POLLERD_HOST_INTERVAL` and the TOML key `host_interval`.
Secrets may also come from a file: `--token-file`, `POLLERD_TOKEN_FILE`, `token_file`.
"""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from pollerd import quantities
from pollerd.api.settings import SHORTEST_TOKEN, ApiSettings, SignInSettings, is_hash
from pollerd.app.environment import PREFIX, variable, variables, with_secrets_read
from pollerd.app.options import OPTIONS, SECRETS, Option, Options
from pollerd.daemon.settings import DaemonSettings, SignalSettings
from pollerd.errors import ConfigError, InvalidValueError, file_fault, nearest, unknown_name
from pollerd.fetching.settings import FetchSettings, normalise_proxy, without_userinfo
from pollerd.notifications.settings import NotificationSettings
from pollerd.rendering.settings import RenderingSettings, browser_shown
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.site_settings import Kind, RespectTtl
from pollerd.storage.settings import StorageSettings
from pollerd.texts import N_, _

NODE_TOTAL_TIMEOUT_SECONDS = 20.0
_CLIENT_ONLY = frozenset({"url"})
_SECRET_FILES = frozenset(f"{name}_file" for name in SECRETS)


@dataclass(frozen=True)
class Config:
    """The merged options, their sources, and the settings for the packages."""

    options: Options
    sources: Mapping[str, str]
    """Option -> "flag", "environment", "file PATH" or "default"."""
    daemon: DaemonSettings
    scheduling: SchedulingSettings
    fetching: FetchSettings
    rendering: RenderingSettings
    notifying: NotificationSettings
    signals: SignalSettings
    storage: StorageSettings
    api: ApiSettings

    def is_set(self, option: str) -> bool:
        """Returns whether the user set the option anywhere."""
        return self.sources[option] != "default"

    def short_tokens(self) -> list[str]:
        """Returns which tokens are too short to be safe, by option; of a hash the length is not known."""
        tokens = {"token": self.options.token, "read_token": self.options.read_token}
        return [name for name, token in tokens.items() if token and not is_hash(token) and len(token) < SHORTEST_TOKEN]

    def shown(self) -> dict[str, tuple[str, str]]:
        """Returns option -> (value as text, source); secrets are masked."""
        return {name: (_shown(name, value), self.sources[name]) for name, value in vars(self.options).items()}


def load(flags: Mapping[str, Any], *, file: Path | None = None, environ: Mapping[str, str] | None = None) -> Config:
    """Merges flags (None: not given), environment and TOML file.

    Raises ConfigError for unknown names and unreadable files, InvalidValueError for invalid values.
    """
    env = os.environ if environ is None else environ
    values, sources = _from_file(_file(file, env))
    flag_values = with_secrets_read(_given(flags), SECRETS, lambda name: f"--{name.replace('_', '-')}")
    for layer, name in ((_from_environment(env), "environment"), (flag_values, "flag")):
        values.update(layer)
        sources.update(dict.fromkeys(layer, name))
    complete = {name: sources.get(name, "default") for name in OPTIONS}
    try:
        options = Options(**{name: _read(OPTIONS[name], value) for name, value in values.items()})
        return _settings(options, complete)
    except InvalidValueError as error:
        raise _as_set(error, complete) from error


def _file(file: Path | None, env: Mapping[str, str]) -> Path | None:
    if file is not None:
        return file
    named = env.get(PREFIX + "CONFIG")
    return Path(named) if named else None


def _given(flags: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in flags.items() if value is not None}


def _from_file(path: Path | None) -> tuple[dict[str, Any], dict[str, str]]:
    if path is None:
        return {}, {}
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(_("config file: {fault}", fault=file_fault(path, error))) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(_("config file {path}: {error}", path=path, error=error)) from error
    _refuse_unknown(values, _("config file {path}", path=path), str, _SECRET_FILES)
    values = with_secrets_read(values, SECRETS, str)
    return values, dict.fromkeys(values, f"file {path}")


def _from_environment(env: Mapping[str, str]) -> dict[str, Any]:
    set_variables = variables(env)
    check_variables(frozenset(set_variables))
    set_variables = with_secrets_read(set_variables, SECRETS, variable)
    return {name: value for name, value in set_variables.items() if name not in _CLIENT_ONLY}


def check_variables(names: frozenset[str]) -> None:
    """Raises ConfigError for a variable without an option; `names` as returned by `variables`."""
    _refuse_unknown(names, "environment", variable, _CLIENT_ONLY | _SECRET_FILES)


def _refuse_unknown(
    values: Collection[str], where: str, spelled: Callable[[str], str], also: frozenset[str] = frozenset()
) -> None:
    unknown = sorted(set(values) - set(OPTIONS) - also)
    if unknown:
        from pollerd.lists.list_document import SECTIONS  # which only this error needs

        if of_lists := ", ".join(name for name in unknown if name in SECTIONS):
            text = _("{where}: {names}: only in a list of sites (setting urls)", where=where, names=of_lists)
            raise ConfigError(text)
        near = {spelled(name): nearest(name, list(OPTIONS), most=1) for name in unknown}
        named = ", ".join(
            _("{name} (did you mean {spelled}?)", name=name, spelled=spelled(closest)) if closest else name
            for name, closest in near.items()
        )
        raise ConfigError(
            _("{where}: unknown {named}; `pollerd config show` lists all settings", where=where, named=named)
        )


# How the values of each kind are read, as text or as TOML has them. ValueError says what is allowed.


def _number(parse: Callable[[str], float], allowed: str) -> Callable[[Any], float]:
    def read(value: Any) -> float:
        if isinstance(value, str):
            return parse(value)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError(allowed)
        return float(value)

    return read


def _count(value: Any) -> int:
    text = str(value).strip()
    if isinstance(value, bool | float) or not (text.isascii() and text.removeprefix("-").isdigit()):
        raise ValueError(_("a whole number"))
    return int(text)


def _size(value: Any) -> int:
    return quantities.in_bytes(value) if isinstance(value, str) else _count(value)


_SWITCH = {
    **dict.fromkeys(("true", "yes", "on", "y", "t", "1"), True),
    **dict.fromkeys(("false", "no", "off", "n", "f", "0"), False),
}


def _switch(value: Any) -> bool:
    known = _SWITCH.get(str(value).strip().lower())
    if known is None:
        raise ValueError(_("true or false"))
    return known


def _names(value: Any) -> tuple[str, ...]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        raise ValueError(_("names with commas between them, or a list of them"))
    return tuple(name.strip() for text in texts for name in text.split(",") if name.strip())


def _text(value: Any) -> str:
    if not isinstance(value, str | Path):
        raise ValueError("text")
    return str(value)


_READERS: Mapping[Kind, Callable[[Any], Any]] = {
    Kind.SECONDS: _number(quantities.seconds, quantities.DURATION),
    Kind.RATE: _number(quantities.per_second, quantities.PACE),
    Kind.SHARE: _number(quantities.share, quantities.SHARE),
    Kind.COUNT: _count,
    Kind.SIZE: _size,
    Kind.SWITCH: _switch,
    Kind.TRUST: RespectTtl.of,
    Kind.NAMES: _names,
    Kind.PATH: lambda value: Path(_text(value)),
    Kind.TEXT: _text,
    Kind.CHOICE: _text,
}


def _read(option: Option, value: Any) -> Any:
    try:
        parsed = _READERS[option.kind](value)
        if option.choices and parsed not in option.choices:
            raise unknown_name(option.name, N_("value"), parsed, option.choices)
    except InvalidValueError:
        raise
    except ValueError as error:
        raise InvalidValueError(option.name, str(error), "(not shown)" if option.secret else value) from error
    return parsed


def _as_set(error: InvalidValueError, sources: Mapping[str, str]) -> InvalidValueError:
    """Renames the field of the error to the option as the user set it; options have no unit in their names."""
    name = error.field.removesuffix("_seconds")
    if name not in OPTIONS:
        return error
    source = sources[name]
    if source == "environment":
        return error.of(variable(name))
    return error.of(f"{source}: {name}" if source.startswith("file ") else name)


S = TypeVar("S")


def _made(settings: type[S], options: Options, **others: Any) -> S:
    """Makes a room's settings: a field from the option of its name without `_seconds`, but for `others`."""
    named = {field.name: field.name.removesuffix("_seconds") for field in fields(settings)}  # type: ignore[arg-type]
    values = {name: getattr(options, option) for name, option in named.items() if option in OPTIONS}
    return settings(**{**values, **others})


def _settings(options: Options, sources: Mapping[str, str]) -> Config:
    longest = math.inf if options.max_interval is None else options.max_interval
    connections = max(options.max_inflight, FetchSettings.max_connections)
    entrance = SignInSettings.of(
        required=options.sign_in,
        allowed_hosts=options.allowed_host,
        trusted_proxies=options.trusted_proxy,
        user_header=options.user_header,
    )
    return Config(
        options=options,
        sources=sources,
        daemon=_made(DaemonSettings, options, objective=_objective(options, sources), shadows=options.shadow),
        scheduling=_made(
            SchedulingSettings,
            options,
            max_interval_seconds=longest,
            min_saving_seconds=_min_saving(options, sources),
        ),
        fetching=_made(
            FetchSettings,
            options,
            total_timeout_seconds=_total_timeout(options, sources),
            max_connections=connections,
        ),
        rendering=_made(RenderingSettings, options),
        notifying=_made(NotificationSettings, options),
        signals=_made(SignalSettings, options),
        # Its `connect_timeout_seconds` is that of the database, which no option sets.
        storage=_made(StorageSettings, options, connect_timeout_seconds=StorageSettings.connect_timeout_seconds),
        api=ApiSettings.listening(
            options.listen,
            token=options.token,
            read_token=options.read_token,
            metrics_version=options.metrics_version,
            entrance=entrance,
        ),
    )


def _total_timeout(options: Options, sources: Mapping[str, str]) -> float:
    """Returns the deadline of a poll; of a node, by default, shorter: who takes over from a dead one waits so long."""
    chosen = options.node is None or sources["total_timeout"] != "default"
    return options.total_timeout if chosen else min(options.total_timeout, NODE_TOTAL_TIMEOUT_SECONDS)


def _min_saving(options: Options, sources: Mapping[str, str]) -> float:
    """Returns what a poll has to save; nothing by default where no chance is too small, as before there was one."""
    configured = {name for name in ("min_saving", "min_yield") if sources[name] != "default"}
    return 0.0 if configured == {"min_yield"} and options.min_yield == 0 else options.min_saving


def _objective(options: Options, sources: Mapping[str, str]) -> str:
    """Returns the objective; freshness by default for a collection, which should be current."""
    chosen = options.topic is None or sources["objective"] != "default"
    return options.objective if chosen else "freshness"


def _shown(name: str, value: object) -> str:
    if value is None:
        return ""
    if name == "database":
        return _without_password(str(value))
    if isinstance(value, tuple):
        return ", ".join(value)
    if isinstance(value, RespectTtl):
        return value.name.lower()
    if name == "proxy":
        return without_userinfo(normalise_proxy(str(value)))
    if name == "browser":
        return browser_shown(str(value))
    return "***" if name in SECRETS else str(value)


def _without_password(url: str) -> str:
    """Masks the password in the URL, and all values of its query, where drivers accept passwords too."""
    scheme, separator, rest = url.partition("://")
    if scheme.startswith("sqlite") or not separator:
        return url
    person, at, place = rest.rpartition("@")
    place, question, query = place.partition("?")
    if "=" in place or "&" in place:  # an @ within the query: the parts are ambiguous
        return f"{scheme}://***"
    name, colon, _rest = person.partition(":")
    names = "&".join(f"{pair.partition('=')[0]}=***" for pair in query.split("&")) if query else ""
    return f"{scheme}://{name}{colon and ':***'}{at}{place}{question}{names}"
