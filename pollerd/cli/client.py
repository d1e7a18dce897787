"""The client of a running daemon's API, for the commands that control it."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.message import Message
from http import HTTPStatus
from itertools import takewhile
from typing import IO, Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import typer

from pollerd import quantities, texts
from pollerd.app.environment import client_defaults, other_variables
from pollerd.cli.output import CallError, UnansweredError, as_typed, clean
from pollerd.errors import InvalidValueError, PollerdError
from pollerd.masking import NOT_SHOWN, masked
from pollerd.texts import N_, _

TIMEOUT_SECONDS = 10.0
PAGE = 1000
"""Items that are asked for at once."""
_PIECE = 64 * 1024


Body = bytes | IO[bytes]
"""Request body; an open file is sent while it is read."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Disables redirects, so that a token reaches only the daemon that it is for."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        """Follows no redirect: it is raised as an error."""
        return


class ApiClient:
    """Client of the API at `url` (http or https, without /api/v1), with `token`.

    `timeout`: seconds of silence after which a call fails; a long answer may take longer while data arrives. Raises
    `InvalidValueError` for an invalid URL. Every call raises `CallError` with one line for users; `UnansweredError` if
    a retry may help.
    """

    def __init__(self, url: str, token: str | None = None, *, timeout: float = TIMEOUT_SECONDS) -> None:
        try:
            parts = urlsplit(url)
            complete = parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.query
        except ValueError:
            complete = False
        if not complete:
            raise InvalidValueError("url", _("an address such as http://127.0.0.1:8080"), url)
        self.url = url.rstrip("/")
        self._address, self.timeout = masked(self.url), timeout
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        if (language := texts.current().code) != texts.ENGLISH:
            self._headers["Accept-Language"] = language.replace("_", "-")
        # The daemon is called directly, without a proxy.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirects())

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Calls `path` below /api/v1 with a JSON body; returns the JSON of the answer, None without one."""
        if body is None:
            return self._send(method, path, None, {})
        return self._send(method, path, json.dumps(body).encode(), {"Content-Type": "application/json"})

    def ask(self, path: str) -> tuple[int, bytes]:
        """Gets `path` below the root, as monitoring does; returns (status, body), whatever the status."""
        request = urllib.request.Request(self.url + path, headers=self._headers)
        try:
            with self._opener.open(request, timeout=self.timeout) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()
        except (OSError, http.client.HTTPException) as error:
            raise self._unanswered(error, self.timeout) from error

    def upload(
        self,
        path: str,
        data: Body,
        content_type: str,
        headers: Mapping[str, str] | None = None,
        *,
        timeout: float | None = None,
    ) -> Any:
        """Posts `data` unchanged; for an open file `headers` must include the Content-Length.

        `timeout` overrides the client's, for slow operations of the daemon.
        """
        return self._send("POST", path, data, {**(headers or {}), "Content-Type": content_type}, timeout)

    def download(self, path: str, method: str = "GET", headers: Mapping[str, str] | None = None) -> Iterator[bytes]:
        """Yields the body of the answer in pieces. Raises `CallError` also if it is interrupted."""
        with self._opened(method, path, None, headers or {}) as response:
            while piece := response.read1(_PIECE):
                yield piece

    def lines(self, path: str, headers: Mapping[str, str], *, timeout: float) -> Iterator[bytes]:
        """Yields the lines of an endless answer; `timeout`: seconds of silence after which it counts as interrupted."""
        with self._opened("GET", path, None, headers, timeout) as response:
            yield from response

    def pages(self, path: str, query: Mapping[str, str | None], limit: int | None = None) -> Iterator[Any]:
        """Yields the items of a list, page by page; at most `limit`."""
        parameters = {name: value for name, value in query.items() if value is not None}
        cursor: str | None = None
        while limit is None or limit > 0:
            more = {} if cursor is None else {"cursor": cursor}
            size = PAGE if limit is None else min(limit, PAGE)
            page = self.call("GET", f"{path}?{urlencode({**parameters, 'limit': size, **more})}")
            yield from page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                return
            limit = None if limit is None else limit - len(page["items"])

    def _send(
        self, method: str, path: str, data: Body | None, headers: Mapping[str, str], timeout: float | None = None
    ) -> Any:
        with self._opened(method, path, data, headers, timeout) as response:
            answer = response.read()
        try:
            return json.loads(answer) if answer else None
        except ValueError as error:
            raise CallError(_("the server at {address} is not pollerd", address=self._address)) from error

    @contextmanager
    def _opened(
        self, method: str, path: str, data: Body | None, headers: Mapping[str, str], timeout: float | None = None
    ) -> Iterator[Any]:
        """Opens the answer for reading. Errors while it is read are also `CallError`."""
        patience = timeout or self.timeout
        request = urllib.request.Request(
            f"{self.url}/api/v1{path}", data=data, method=method, headers={**self._headers, **headers}
        )
        try:
            with self._opener.open(request, timeout=patience) as response:
                yield response
        except urllib.error.HTTPError as error:
            with error:
                raise self._refused(error) from error
        except (OSError, http.client.HTTPException) as error:
            raise self._unanswered(error, patience) from error

    def _refused(self, error: urllib.error.HTTPError) -> CallError:
        reason = _refusal(error)
        if error.code == HTTPStatus.SERVICE_UNAVAILABLE:
            return UnansweredError(
                _("the daemon at {address} is not ready: {reason}", address=self._address, reason=reason)
            )
        return UnansweredError(reason) if error.code >= HTTPStatus.INTERNAL_SERVER_ERROR else CallError(reason)

    def _unanswered(self, error: Exception, patience: float) -> UnansweredError:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(reason, TimeoutError):
            silence = quantities.duration(patience)
            return UnansweredError(
                _(
                    "the daemon at {address} was silent for {silence}: it is busy, or hangs; --timeout waits longer",
                    address=self._address,
                    silence=silence,
                )
            )
        reason = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
        return UnansweredError(_("no daemon answers at {address}: {reason}", address=self._address, reason=reason))


_GIVE_TOKEN = N_("give it with --token or POLLERD_TOKEN")


def _refusal(error: urllib.error.HTTPError) -> str:
    """Returns the detail of a problem document, or the HTTP reason."""
    try:
        problem = json.loads(error.read())
        detail = str(problem["detail"])
        value = problem.get("errors", [{}])[0].get("given")
    except (ValueError, LookupError, TypeError, AttributeError, OSError, http.client.HTTPException):
        return _("the daemon refuses: {code} {reason}", code=error.code, reason=error.reason)
    if error.code == HTTPStatus.UNAUTHORIZED:
        sent = "invalid_token" in (error.headers.get("WWW-Authenticate") or "")
        return (
            _("{detail}; --token or POLLERD_TOKEN holds another", detail=detail)
            if sent
            else f"{detail}: {_(_GIVE_TOKEN)}"
        )
    if value is None or value == NOT_SHOWN or repr(value) in detail:
        return detail
    return _("{text}; given: {given!r}", text=detail, given=value)


# The connection of a command to the daemon, with exit codes of errors.
#
# Exit codes: 1 for a problem (the daemon does not answer, is not ready, or a finding is bad), 2 if the command cannot
# be executed as given.

WRONG, REFUSED = 1, 2


@contextmanager
def daemon_at(url: str | None, token: str | None, timeout: float) -> Iterator[ApiClient]:
    """Yields a client of the daemon; errors end the command with one clear line."""
    try:
        yield client_of(url, token, timeout)
    except PollerdError as error:
        say_wrong(error)
        raise typer.Exit(exit_code(error)) from error


def client_of(url: str | None, token: str | None, timeout: float) -> ApiClient:
    """Returns a client of the daemon at `url`, or of the environment. Raises `PollerdError` for bad variables."""
    _check_other_variables()
    default_url, default_token = client_defaults()
    return ApiClient(url or default_url, token or default_token, timeout=timeout)


def say_wrong(error: PollerdError) -> None:
    """Writes the error as one line on standard error."""
    typer.echo(f"pollerd: {clean(as_typed(str(error)))}", err=True)


def exit_code(error: PollerdError) -> int:
    """Returns the exit code of a command for the error."""
    return WRONG if isinstance(error, UnansweredError) else REFUSED


def _check_other_variables() -> None:
    """Rejects misspelled variables, as the daemon does. Loads the daemon's options only if needed."""
    others = other_variables()
    if others:
        from pollerd.app.config import check_variables

        check_variables(others)


# Following a daemon across its restarts: its changes over the event stream, and growing lists by repeated requests.

_SILENCE_SECONDS = 45.0
"""Timeout of the stream: three of the daemon's keepalive periods of 15 s."""
_ASK_SECONDS = 2.0
"""Delay between two looks at a list that grows."""
_AGAIN_SECONDS = (0.5, 1.0, 2.0, 5.0)
"""Delays before the first, second … consecutive reconnection; then always the last."""


def followed(daemon: ApiClient, query: Mapping[str, str | None], last: int | None) -> Iterator[dict[str, Any]]:
    """Yields the changes after the one with id `last` (None: from now on), each once, endlessly.

    On interruption, reports it once on standard error, reconnects and continues. Raises `CallError` if the daemon
    cannot be reached at first, or refuses.
    """
    parameters = {name: value for name, value in query.items() if value is not None}
    breaks, position = 0, None if last is None else str(last)
    begun = False
    while True:
        try:
            for event in _events(daemon, parameters, position):
                begun, breaks, position = True, 0, event.id or position
                if event.data:
                    yield json.loads(event.data)
            broken = UnansweredError(_("the daemon ended the stream"))
        except UnansweredError as error:
            if not begun:
                raise
            broken = error
        if not breaks:
            say_wrong(UnansweredError(_("{broken}; trying again", broken=broken)))
        time.sleep(_AGAIN_SECONDS[min(breaks, len(_AGAIN_SECONDS) - 1)])
        breaks += 1


def grown(daemon: ApiClient, path: str, query: Mapping[str, str | None], last: int) -> Iterator[dict[str, Any]]:
    """Yields the items of a list with ids above `last`, oldest first, each once, endlessly; asks every two seconds.

    `query`: without order. On interruption, reports it once on standard error and goes on. Raises `CallError` if the
    daemon refuses.
    """
    breaks = 0
    while True:
        newest = daemon.pages(path, {**query, "order": "newest"})
        try:
            new = list(takewhile(lambda item, known=last: item["id"] > known, newest))  # type: ignore[misc]
        except UnansweredError as error:
            if not breaks:
                say_wrong(UnansweredError(_("{error}; trying again", error=error)))
            breaks += 1
        else:
            breaks = 0
            yield from reversed(new)
            last = new[0]["id"] if new else last
        time.sleep(_ASK_SECONDS)


class _Event(NamedTuple):
    id: str
    """Position for reconnection; empty: unchanged."""
    data: str
    """JSON of a change; empty: none."""


def _events(daemon: ApiClient, query: Mapping[str, str], position: str | None) -> Iterator[_Event]:
    headers = {"Accept": "text/event-stream"}
    if position is not None:
        headers["Last-Event-ID"] = position
    fields: dict[str, str] = {}
    for raw in daemon.lines(f"/events?{urlencode(query)}", headers, timeout=max(_SILENCE_SECONDS, daemon.timeout)):
        name, _colon, value = raw.decode("utf-8", "replace").rstrip("\r\n").partition(":")
        if name:
            fields[name] = value.removeprefix(" ")
        elif fields:  # an empty line ends an event; an incomplete event is sent again
            yield _Event(fields.get("id", ""), fields.get("data", ""))
            fields = {}
