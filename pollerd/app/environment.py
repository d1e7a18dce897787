"""Environment variables, and the settings of client commands in them. Imports nothing heavy."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from pollerd.api.settings import is_hash
from pollerd.errors import ConfigError, InvalidValueError, file_fault
from pollerd.texts import _

PREFIX = "POLLERD_"
DEFAULT_URL = "http://127.0.0.1:8080"
_FOR_CLIENTS = frozenset({"url", "token", "token_file"})


def variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns option or secret file -> value, of all our variables except the one for the config file."""
    return {
        variable.removeprefix(PREFIX).lower(): value
        for variable, value in sorted(environ.items())
        if variable.startswith(PREFIX) and variable != PREFIX + "CONFIG"
    }


def variable(name: str) -> str:
    """Returns the name of the option's environment variable."""
    return PREFIX + name.upper()


def with_secrets_read(
    values: Mapping[str, Any], secrets: Collection[str], spelled: Callable[[str], str]
) -> dict[str, Any]:
    """Replaces the files of secrets (`NAME_file`) by their contents. Raises ConfigError; `spelled` formats names."""
    files = {f"{secret}_file": secret for secret in sorted(secrets)}
    remaining = {name: value for name, value in values.items() if name not in files}
    for name, secret in files.items():
        if name not in values:
            continue
        if secret in remaining:
            raise ConfigError(
                _(
                    "{secret} and {file} are both set; one is allowed",
                    secret=spelled(secret),
                    file=spelled(name),
                )
            )
        remaining[secret] = _secret(spelled(name), values[name])
    return remaining


def client_defaults(environ: Mapping[str, str] | None = None) -> tuple[str, str | None]:
    """Returns (URL of the daemon, token), the defaults of client commands; None: no token.

    Raises ConfigError for a secret file that cannot be read, InvalidValueError for a token's hash.
    """
    set_variables = variables(os.environ if environ is None else environ)
    values = with_secrets_read(
        {name: set_variables[name] for name in _FOR_CLIENTS & set_variables.keys()}, {"token"}, variable
    )
    token = values.get("token")
    if token is not None and is_hash(token):
        allowed = _("the token itself: its hash is enough for the daemon, not for commands that call it")
        raise InvalidValueError("token", allowed, "(not shown)")
    return values.get("url", DEFAULT_URL), token


def other_variables(environ: Mapping[str, str] | None = None) -> frozenset[str]:
    """Returns our variables that client commands do not use: options of the daemon, or misspelled names."""
    return frozenset(variables(os.environ if environ is None else environ)) - _FOR_CLIENTS


def _secret(spelled: str, path: object) -> str:
    try:
        return Path(str(path)).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{spelled}: {file_fault(str(path), error)}") from error
