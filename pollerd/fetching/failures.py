"""Outcome kinds of foreign exceptions and of statuses."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import ssl

import aiohttp
from aiohttp.http import HttpProcessingError

from pollerd.fetching.guard import DENIED_ERRNO
from pollerd.model import OutcomeKind
from pollerd.texts import _

SITE_FAULTS = (aiohttp.ClientError, HttpProcessingError, OSError, UnicodeError, RuntimeError)
"""Exceptions of a request that are not our faults: timeouts are OSErrors, a label too long for IDNA raises UnicodeError
in the name lookup, and uvloop reports some failed connects as RuntimeError."""

_MAX_DETAIL_LENGTH = 300
_LINK_ERRNOS = frozenset(
    {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN, errno.ENETRESET, errno.EADDRNOTAVAIL}
)


_CONNECT_CALL = re.compile(r"\[Errno (\d+)\] Connect call failed")


class RefusedError(Exception):
    """Ends a fetch with the kind of its outcome. Never leaves the package."""

    def __init__(self, kind: OutcomeKind, detail: str) -> None:
        super().__init__(detail)
        self.kind, self.detail = kind, one_line(detail)


class UnreadableError(RefusedError):
    """The parser refused the answer."""


def refusal(error: BaseException) -> RefusedError:
    """Returns the refusal for one of `SITE_FAULTS`."""
    kind = _kind_of(error)
    refused = UnreadableError if isinstance(error, HttpProcessingError) else RefusedError
    return refused(kind, _detail_of(kind, error))


def _kind_of(error: BaseException) -> OutcomeKind:
    match error:
        case asyncio.TimeoutError():
            return OutcomeKind.TIMEOUT
        case aiohttp.ClientConnectorDNSError():
            denied = error.os_error.errno == DENIED_ERRNO
            return OutcomeKind.BLOCKED_ADDRESS if denied else OutcomeKind.DNS_ERROR
        case UnicodeError():
            return OutcomeKind.DNS_ERROR
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientConnectorSSLError() | ssl.SSLError():
            return OutcomeKind.TLS_ERROR
        case aiohttp.ClientConnectorError():
            return _kind_of_connect(error.os_error)
        case aiohttp.ClientOSError():
            return _kind_of_lost(error)
        case aiohttp.ClientHttpProxyError():
            return OutcomeKind.CONNECT_ERROR
        case aiohttp.ClientError() | HttpProcessingError():
            return OutcomeKind.PROTOCOL_ERROR
        case _:
            return OutcomeKind.CONNECT_ERROR


def _kind_of_connect(error: OSError) -> OutcomeKind:
    if error.errno == DENIED_ERRNO:
        return OutcomeKind.BLOCKED_ADDRESS
    if error.errno == errno.ETIMEDOUT:
        return OutcomeKind.TIMEOUT
    return OutcomeKind.TLS_ERROR if isinstance(error, ssl.SSLError) else OutcomeKind.CONNECT_ERROR


def _kind_of_lost(error: aiohttp.ClientOSError) -> OutcomeKind:
    """Returns the kind of a broken connection: by TLS, by the network, or by the site."""
    if isinstance(error.__cause__, ssl.SSLError):
        return OutcomeKind.TLS_ERROR
    if error.errno == errno.ETIMEDOUT:
        return OutcomeKind.TIMEOUT
    return OutcomeKind.CONNECT_ERROR if error.errno in _LINK_ERRNOS else OutcomeKind.PROTOCOL_ERROR


def _detail_of(kind: OutcomeKind, error: BaseException) -> str:
    match error:
        case aiohttp.ConnectionTimeoutError():
            return _("no connection within the deadline")
        case asyncio.TimeoutError():
            return _("no complete response within the deadline")
        case aiohttp.ClientConnectorCertificateError():
            return _("certificate not accepted: {certificate_error}", certificate_error=error.certificate_error)
        case aiohttp.ClientConnectorError():
            refused = _CONNECT_CALL.search(
                str(error.os_error)
            )  # asyncio's words; several if it tried several addresses
            if refused is not None:
                return os.strerror(int(refused[1]))
            return error.strerror or str(error.os_error) or _("connection failed")
        case aiohttp.ServerDisconnectedError():
            return _("the server closed the connection without a complete response")
        case aiohttp.ClientHttpProxyError():
            return proxy_refusal(error.status)
        case aiohttp.ClientResponseError() | HttpProcessingError():
            return _("not readable as HTTP: {message}", message=error.message)
        case _:
            return str(error) or kind.value


def proxy_refusal(status: int) -> str:
    """Returns the detail of a request that a proxy refused."""
    return _("the proxy refuses: HTTP status {status}", status=status)


def one_line(text: str) -> str:
    """Returns `text` as one printable line of at most 300 characters, without surrogates."""
    line = " ".join(text.split()).encode("utf-8", "backslashreplace").decode()
    line = "".join(c if c.isprintable() else "�" for c in line)
    return line if len(line) <= _MAX_DETAIL_LENGTH else f"{line[: _MAX_DETAIL_LENGTH - 1]}…"


def kind_of_status(status: int, retry_after: float | None) -> OutcomeKind:
    """Returns the outcome kind of a final status without a page, but for 304.

    A 503 counts as throttled only if the server says when to retry.
    """
    if status == 404:
        return OutcomeKind.NOT_FOUND
    if status == 410:
        return OutcomeKind.GONE
    if status == 429 or (status == 503 and retry_after is not None):
        return OutcomeKind.THROTTLED
    if 400 <= status < 500:
        return OutcomeKind.CLIENT_ERROR
    return OutcomeKind.SERVER_ERROR if 500 <= status < 600 else OutcomeKind.PROTOCOL_ERROR
