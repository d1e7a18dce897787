import errno
import ssl

import aiohttp
import pytest

from pollerd.fetching.failures import one_line, refusal
from pollerd.fetching.guard import BlockedAddressError
from pollerd.model import OutcomeKind


def _connecting(error: OSError) -> aiohttp.ClientConnectorError:
    key = aiohttp.client_reqrep.ConnectionKey("example.org", 80, False, True, None, None, None)
    return aiohttp.ClientConnectorError(key, error)


def _caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (_connecting(OSError(errno.ENETUNREACH, "Network is unreachable")), OutcomeKind.CONNECT_ERROR),
        (_connecting(OSError(errno.EMFILE, "Too many open files")), OutcomeKind.CONNECT_ERROR),
        (_connecting(OSError("Multiple exceptions: a, b")), OutcomeKind.CONNECT_ERROR),
        (_connecting(TimeoutError(errno.ETIMEDOUT, "Connection timed out")), OutcomeKind.TIMEOUT),
        (_connecting(BlockedAddressError("loopback address ::1")), OutcomeKind.BLOCKED_ADDRESS),
        (_connecting(ssl.SSLError(1, "handshake failed")), OutcomeKind.TLS_ERROR),
        (aiohttp.ClientOSError(errno.ENETUNREACH, "Network is unreachable"), OutcomeKind.CONNECT_ERROR),
        (aiohttp.ClientOSError(errno.EHOSTUNREACH, "No route to host"), OutcomeKind.CONNECT_ERROR),
        (aiohttp.ClientOSError(errno.ETIMEDOUT, "Connection timed out"), OutcomeKind.TIMEOUT),
        (aiohttp.ClientOSError(errno.ECONNRESET, "Connection reset by peer"), OutcomeKind.PROTOCOL_ERROR),
        (_caused(aiohttp.ClientOSError(1, "alert"), ssl.SSLError(1, "alert")), OutcomeKind.TLS_ERROR),
        (aiohttp.ServerDisconnectedError(), OutcomeKind.PROTOCOL_ERROR),
        (aiohttp.ClientPayloadError("not completed"), OutcomeKind.PROTOCOL_ERROR),
        (RuntimeError("File descriptor 7 is used by transport"), OutcomeKind.CONNECT_ERROR),
        (TimeoutError(), OutcomeKind.TIMEOUT),
        (aiohttp.SocketTimeoutError(), OutcomeKind.TIMEOUT),
        (aiohttp.ConnectionTimeoutError(), OutcomeKind.TIMEOUT),
    ],
)
def test_kind_and_a_line_for_each(error: Exception, kind: OutcomeKind) -> None:
    refused = refusal(error)
    assert refused.kind is kind
    assert refused.detail
    assert refused.detail == one_line(refused.detail)


@pytest.mark.parametrize(
    "words",
    ["Connect call failed ('127.0.0.1', 1)", "Multiple exceptions: [Errno 111] Connect call failed ('::1', 1, 0, 0)"],
)
def test_a_refused_connection_is_said_in_the_words_of_the_system(words: str) -> None:
    error = OSError(errno.ECONNREFUSED, words) if words.startswith("Connect") else OSError(words)
    assert str(refusal(_connecting(error))) == "Connection refused"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\r\n  b\tc", "a b c"),
        ("\x1b[31mred", "�[31mred"),
        ("\udcff", "\\udcff"),
        ("x" * 400, "x" * 299 + "…"),
    ],
)
def test_one_line(text: str, line: str) -> None:
    assert one_line(text) == line
