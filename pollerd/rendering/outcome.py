"""The outcome of a rendered poll, and the outcome kinds of the errors that a browser reports."""

from __future__ import annotations

import re

from pollerd.fetching.failures import one_line
from pollerd.model import Outcome, OutcomeKind
from pollerd.texts import _


class RenderedOutcome(Outcome, frozen=True, gc=False):
    """Outcome of a rendered page. BODY: `body` is its HTML as rendered, in UTF-8; `bytes` is the size of that."""

    loaded_bytes: int = 0
    """Bytes that crossed our proxy for the page, both ways: encoded and, of https, encrypted."""
    requests: int = 0
    """Connections and requests that the page made through our proxy, refused ones included."""
    refused: int = 0
    """How many of them were refused: denied addresses, paused hosts, beyond the page's bytes."""
    browser_fault: bool = False
    """The browser failed, not the site: nothing about the site was learned, and none is to blame."""


_NET_ERROR = re.compile(r"net::(ERR_[A-Z0-9_]+)")
_KINDS: tuple[tuple[str, OutcomeKind], ...] = (
    ("ERR_CERT_", OutcomeKind.TLS_ERROR),
    ("ERR_SSL_", OutcomeKind.TLS_ERROR),
    ("ERR_BAD_SSL_", OutcomeKind.TLS_ERROR),
    ("ERR_NAME_", OutcomeKind.DNS_ERROR),
    ("ERR_TIMED_OUT", OutcomeKind.TIMEOUT),
    ("ERR_CONNECTION_TIMED_OUT", OutcomeKind.TIMEOUT),
    ("ERR_TUNNEL_", OutcomeKind.CONNECT_ERROR),
    ("ERR_ADDRESS_", OutcomeKind.CONNECT_ERROR),
    ("ERR_CONNECTION_REFUSED", OutcomeKind.CONNECT_ERROR),
)
"""Starts of Chromium's error names. All others are the site's: a broken answer."""
_GONE = ("Connection closed", "has been closed", "Browser closed")
_OUR_PROXY = ("ERR_PROXY_", "ERR_NO_SUPPORTED_PROXIES", "ERR_INTERNET_DISCONNECTED", "ERR_NETWORK_CHANGED")


class PageRefusedError(Exception):
    """Ends the rendering of a page with the kind of its outcome. Never leaves the package.

    `ours`: the browser failed, or its way to our proxy: no site is to blame.
    """

    def __init__(self, kind: OutcomeKind, detail: str, *, ours: bool = False) -> None:
        super().__init__(detail)
        self.kind, self.detail, self.ours = kind, one_line(detail), ours


def browser_fault(detail: str) -> PageRefusedError:
    """Returns the refusal of a page because the browser failed."""
    return PageRefusedError(OutcomeKind.CONNECT_ERROR, _("the browser failed: {detail}", detail=detail), ours=True)


def browser_gone(message: str) -> bool:
    """Returns whether Playwright's message says that the browser, or its driver between it and us, is gone."""
    return any(words in message for words in _GONE)


def navigation_refusal(message: str) -> PageRefusedError:
    """Returns the refusal for Playwright's message about a page that could not be loaded."""
    if "Download is starting" in message:
        return PageRefusedError(OutcomeKind.PROTOCOL_ERROR, _("the answer is a download, not a page"))
    match = _NET_ERROR.search(message)
    if match is None:
        return PageRefusedError(OutcomeKind.PROTOCOL_ERROR, _("the page could not be loaded"))
    name = match[1]
    if name.startswith(_OUR_PROXY):
        return browser_fault(_("it does not reach pollerd's proxy ({name})", name=name))
    kind = next((kind for start, kind in _KINDS if name.startswith(start)), OutcomeKind.PROTOCOL_ERROR)
    return PageRefusedError(kind, _("the page could not be loaded: {name}", name=name))
