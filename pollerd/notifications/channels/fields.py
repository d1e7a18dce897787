"""Reads the fields of a JSON object that a user gave; each error names field, what is allowed and what was given."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, NoReturn

from pollerd.detection.selection.values.nearest import with_nearest
from pollerd.errors import InvalidValueError
from pollerd.masking import NOT_SHOWN

_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?|[0-9A-Fa-f:.]{2,45}")


class GivenFields:
    """The fields of one object, taken one by one; the values of `secret` ones are not shown in errors."""

    def __init__(self, given: Mapping[str, Any], known: Collection[str], secret: Collection[str]) -> None:
        """Raises `InvalidValueError` for a field that is not known."""
        self._given, self._secret = given, frozenset(secret)
        for name in given:
            if name not in known:
                allowed = with_nearest(f"one of {', '.join(sorted(known))}", name, sorted(known))
                raise InvalidValueError("channel", allowed, name)

    def refuse(self, name: str, allowed: str) -> NoReturn:
        """Raises `InvalidValueError` for the field."""
        given = self._given.get(name)
        raise InvalidValueError(name, allowed, NOT_SHOWN if name in self._secret and given is not None else given)

    def raw(self, name: str) -> Any:
        """Returns the field as given; None: it is not."""
        return self._given.get(name)

    def text(self, name: str, allowed: str, most: int = 1_000) -> str | None:
        """Returns a text of 1 to `most` printable characters; None: not given. Raises `InvalidValueError`."""
        value = self._given.get(name)
        if value is None:
            return None
        if not isinstance(value, str) or not 0 < len(value) <= most or not value.isprintable():
            self.refuse(name, allowed)
        return value

    def required(self, name: str, allowed: str, most: int = 1_000) -> str:
        """Returns a text that must be given."""
        value = self.text(name, allowed, most)
        return self.refuse(name, allowed) if value is None else value

    def host(self, name: str) -> str:
        """Returns a host: a name in ASCII or an address without brackets."""
        allowed = "a host name in ASCII, or an IP address without brackets"
        value = self.required(name, allowed, 253)
        return value.lower() if _HOST.fullmatch(value) else self.refuse(name, allowed)

    def port(self, default: int) -> int:
        """Returns `port`: 1 to 65535."""
        value = self._given.get("port", default)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 65_536:
            self.refuse("port", "a whole number from 1 to 65535")
        return value

    def choice(self, name: str, allowed: Collection[str], default: str) -> str:
        """Returns one of a few words."""
        value = self._given.get(name, default)
        if not isinstance(value, str) or value not in allowed:
            near = with_nearest(f"one of {', '.join(allowed)}", str(value), list(allowed))
            self.refuse(name, near)
        return value

    def flag(self, name: str, default: bool) -> bool:
        """Returns true or false."""
        value = self._given.get(name, default)
        return value if isinstance(value, bool) else self.refuse(name, "true or false")
