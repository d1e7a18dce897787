"""Client of another program's API, from which sites are moved: read only, one call at a time."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from email.message import Message
from typing import IO
from urllib.parse import urlsplit

from pollerd import quantities
from pollerd.cli.common.call_errors import CallError, UnansweredError
from pollerd.errors import InvalidValueError
from pollerd.masking import masked

MAX_BODY_BYTES = 64 * 1024 * 1024
_KEY_HEADER = "x-api-key"


class _NoSourceRedirects(urllib.request.HTTPRedirectHandler):
    """Disables redirects, so that a key reaches only the program that it is for."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        """Follows no redirect: it is raised as an error."""
        return


class SourceClient:
    """Gets what changedetection.io at `url` (with or without /api/v1) tells; `key` may be None where none is needed.

    The address is trusted, as one that the user names: it typically is a private one. `timeout`: seconds of silence.
    Raises `InvalidValueError` for an invalid URL.
    """

    def __init__(self, url: str, key: str | None, *, timeout: float) -> None:
        try:
            parts = urlsplit(url)
            complete = parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.query
        except ValueError:
            complete = False
        if not complete or "@" in parts.netloc:
            raise InvalidValueError("source-url", "as in http://127.0.0.1:5000, without user name and password", url)
        self._root = f"{url.rstrip('/').removesuffix('/api/v1')}/api/v1"
        self._address, self._timeout = masked(url), timeout
        self._headers = {} if key is None else {_KEY_HEADER: key}
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoSourceRedirects())

    def get(self, path: str) -> tuple[int, bytes]:
        """Returns (status, body), whatever the status. Raises `UnansweredError`, or `CallError` for too long a body."""
        request = urllib.request.Request(self._root + path, headers=self._headers)
        try:
            with self._opener.open(request, timeout=self._timeout) as response:
                status, body = response.status, response.read(MAX_BODY_BYTES + 1)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, b""
        except (OSError, http.client.HTTPException) as error:
            raise self._unanswered(error) from error
        if len(body) > MAX_BODY_BYTES:
            raise CallError(f"{self._address} answers with more than {MAX_BODY_BYTES // 1024**2} MiB")
        return status, body

    def _unanswered(self, error: Exception) -> UnansweredError:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(reason, TimeoutError):
            silence = quantities.duration(self._timeout)
            return UnansweredError(f"the source at {self._address} was silent for {silence}; --timeout waits longer")
        told = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
        return UnansweredError(f"nothing answers at {self._address}: {told}")
