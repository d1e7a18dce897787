"""The cookie of a session: what a browser sends by itself, and no script reads."""

from __future__ import annotations

import re

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import Response
from starlette.types import Scope as Connection

from pollerd.storage import SESSION_MOST_SECONDS

_SECURE = "__Host-pollerd"
_PLAIN = "pollerd"
_PORT = re.compile(r":([0-9]{1,5})$")


def cookie_name(connection: Connection) -> str:
    """Returns the cookie's name: under TLS one that other hosts and unencrypted connections cannot set.

    It has the port of the address that the browser shows, if that has one: browsers send a cookie to all ports of a
    host, and daemons on two of them would overwrite each other's. Nodes behind one address have one name.
    """
    port = _PORT.search(Headers(scope=connection).get("host", ""))
    return _without_port(connection) + (f"-{port[1]}" if port else "")


def secret_in(connection: Connection, headers: Headers) -> str | None:
    """Returns the session's secret that a call sends; None: it sends none.

    A cookie without port counts where there is none with it: a proxy may name the port in some of its requests only.
    """
    sent = [cookie_parser(line) for line in headers.getlist("cookie")]
    for name in (cookie_name(connection), _without_port(connection)):
        for cookies in sent:
            if cookies.get(name):
                return cookies[name]
    return None


def _without_port(connection: Connection) -> str:
    return _SECURE if _is_secure(connection) else _PLAIN


def set_cookie(response: Response, connection: Connection, secret: str) -> None:
    """Has the browser keep the session."""
    response.set_cookie(
        cookie_name(connection),
        secret,
        max_age=int(SESSION_MOST_SECONDS),
        path="/",
        secure=_is_secure(connection),
        httponly=True,
        samesite="strict",
    )


def clear_cookie(response: Response, connection: Connection) -> None:
    """Has the browser forget the session."""
    secure = _is_secure(connection)
    response.delete_cookie(cookie_name(connection), path="/", secure=secure, httponly=True, samesite="strict")


def _is_secure(connection: Connection) -> bool:
    return bool(connection.get("scheme") == "https")
