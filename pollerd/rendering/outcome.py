"""The outcome of a rendered poll: a fetch's, with what only a browser has."""

from __future__ import annotations

from pollerd.model import Outcome


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
