"""Calls to a running daemon's API, for the commands that steer it."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.message import Message
from typing import IO, Any
from urllib.parse import urlencode, urlsplit

from pollerd.errors import InvalidValueError, PollerdError

_PAGE = 1000
_PIECE = 64 * 1024
_TIMEOUT_SECONDS = 600.0
_UNAUTHORIZED = 401


class CallError(PollerdError):
    """The daemon cannot be reached, or refuses the call."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A token goes to the daemon it was given for, nowhere else."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        """Follows none: the redirect comes out as an error."""
        return


class Client:
    """The API at `url` (http or https, without /api/v1), called with `token`.

    Raises `InvalidValueError` for a URL that names no daemon. Every call raises `CallError` with one line for a
    person.
    """

    def __init__(self, url: str, token: str | None = None) -> None:
        try:
            parts = urlsplit(url)
            complete = parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.query
        except ValueError:
            complete = False
        if not complete:
            raise InvalidValueError("url", "as in http://127.0.0.1:8080", url)
        self.url = url.rstrip("/")
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        # No proxy stands between a daemon and whoever steers it.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirects())

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Calls `path` below /api/v1 with a JSON body, and returns the JSON of the answer; None where it has none."""
        if body is None:
            return self._send(method, path, None, {})
        return self._send(method, path, json.dumps(body).encode(), {"Content-Type": "application/json"})

    def ask(self, path: str) -> tuple[int, bytes]:
        """GETs `path` below the root, as machines do: (status, body), whatever the status."""
        request = urllib.request.Request(self.url + path, headers=self._headers)
        try:
            with self._opener.open(request, timeout=_TIMEOUT_SECONDS) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error

    def upload(self, path: str, data: bytes, content_type: str) -> Any:
        """Posts `data` as it is."""
        return self._send("POST", path, data, {"Content-Type": content_type})

    def download(self, path: str) -> Iterator[bytes]:
        """The body of a GET, piece by piece. Raises `CallError` also where it breaks off."""
        with self._opened("GET", path, None, {}) as response:
            while piece := response.read1(_PIECE):
                yield piece

    def pages(self, path: str, query: Mapping[str, str | None]) -> Iterator[Any]:
        """The items of a list, page by page."""
        given = {name: value for name, value in query.items() if value is not None}
        cursor: str | None = None
        while True:
            more = {} if cursor is None else {"cursor": cursor}
            page = self.call("GET", f"{path}?{urlencode({**given, 'limit': _PAGE, **more})}")
            yield from page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def _send(self, method: str, path: str, data: bytes | None, headers: Mapping[str, str]) -> Any:
        with self._opened(method, path, data, headers) as response:
            answer = response.read()
        try:
            return json.loads(answer) if answer else None
        except ValueError as error:
            raise CallError(f"what answers at {self.url} is not pollerd") from error

    @contextmanager
    def _opened(self, method: str, path: str, data: bytes | None, headers: Mapping[str, str]) -> Iterator[Any]:
        """The answer, open for reading. What fails while it is read is a `CallError`, too."""
        request = urllib.request.Request(
            f"{self.url}/api/v1{path}", data=data, method=method, headers={**self._headers, **headers}
        )
        try:
            with self._opener.open(request, timeout=_TIMEOUT_SECONDS) as response:
                yield response
        except urllib.error.HTTPError as error:
            with error:
                raise CallError(_refusal(error)) from error
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> CallError:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        return CallError(f"no daemon answers at {self.url}: {reason}")


def _refusal(error: urllib.error.HTTPError) -> str:
    """The detail of a problem document, or what HTTP says."""
    try:
        problem = json.loads(error.read())
        detail = str(problem["detail"])
        given = problem.get("errors", [{}])[0].get("given")
    except (ValueError, LookupError, TypeError, AttributeError, OSError, http.client.HTTPException):
        return f"the daemon refuses: {error.code} {error.reason}"
    if error.code == _UNAUTHORIZED:
        return f"{detail}: give it with --token or POLLERD_TOKEN"
    return detail if given is None else f"{detail}; given: {given!r}"
