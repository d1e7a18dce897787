"""What each version of a replayed page says, read without any code of pollerd: equal states look the same to a reader.

The versions come from `load.py` in the folder of the replay server: `content_sources()` names the sources and
`contents(source)` yields their pages (id, content_type, w0, horizon, versions with `body` and time `t`). A page that
repeats its history serves version number n modulo the number of its versions.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lxml import etree, html

Reader = Callable[[str, bytes], str]
"""Takes a medium and a body, returns what counts of it."""
_UNSEEN = "ancestor::script or ancestor::style or ancestor::template or ancestor::noscript or ancestor::head"
_ASIDE = "ancestor::nav or ancestor::footer"
_TEXT = f"//text()[not({_UNSEEN})]"
_BLOCKS = f"(//p | //li)[not({_ASIDE})]"
_TEXT_OF = f".//text()[not({_UNSEEN} or {_ASIDE})]"
SELECTIONS: dict[str, list[dict[str, Any]]] = {
    "text/html": [{"remove": {"css": "nav, footer"}}, {"keep": {"css": "p, li"}}],
    "application/rss+xml": [{"items": {"fields": ["title"]}}],
    "application/json": [{"keep": {"jsonpath": "$.Incidents[*].PercentContained"}}],
    "text/markdown": [{"lines": {"keep": [{"re": "^#"}]}}],
}
"""Steps of a selection by medium; `selected` says the same in other words."""


class Page(NamedTuple):
    """A page's medium, without parameters, and its bodies in their order.

    times: when each was live first, seconds from the beginning of its history, which repeats after `period` seconds.
    """

    media: str
    bodies: list[bytes]
    times: Sequence[float] = ()
    period: float = 0.0


def pages(traces: Path) -> dict[str, Page]:
    """Returns the pages of the replay server by their ids."""
    spec = importlib.util.spec_from_file_location("replayed_contents", traces / "load.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {page["id"]: _page(page) for source in module.content_sources() for page in module.contents(source)}


def _page(told: dict[str, Any]) -> Page:
    versions, began = told["versions"], told["w0"]
    return Page(
        told["content_type"].split(";")[0],
        [version["body"] for version in versions],
        [version["t"] - began for version in versions],
        told["horizon"] - began,
    )


class States:
    """The states of pages: numbers, equal where the reader says the same."""

    def __init__(self, found: Mapping[str, Page], reader: Reader) -> None:
        self._states: dict[str, list[int]] = {}
        for name, page in found.items():
            numbers: dict[str, int] = {}
            said = (reader(page.media, body) for body in page.bodies)
            self._states[name] = [numbers.setdefault(each, len(numbers)) for each in said]

    def of(self, page: str, version: int) -> int:
        """Returns the state of what was served as this version."""
        states = self._states[page]
        return states[version % len(states)]

    def number(self, page: str) -> int:
        """Returns how many states a page has."""
        return len(set(self._states[page]))


def whole(media: str, body: bytes) -> str:
    """Returns the visible text of HTML, the entries of a feed in the order of their texts, all of anything else."""
    if media == "text/html":
        return _words(html.fromstring(body).xpath(_TEXT))
    if media == "application/rss+xml":
        return "\n".join(sorted(_words(item.itertext()) for item in etree.fromstring(body).iter("item")))
    if media == "application/json":
        return json.dumps(json.loads(body), sort_keys=True)
    return _words([body.decode()])


def selected(media: str, body: bytes) -> str:
    """Returns what the selection of the medium in `SELECTIONS` keeps."""
    if media == "text/html":
        blocks = html.fromstring(body).xpath(_BLOCKS)
        return "\n".join(_words(block.xpath(_TEXT_OF)) for block in blocks)
    if media == "application/rss+xml":
        return "\n".join(sorted(_words([item.findtext("title") or ""]) for item in etree.fromstring(body).iter("item")))
    if media == "application/json":
        return json.dumps([incident["PercentContained"] for incident in json.loads(body)["Incidents"]])
    return "\n".join(_words([line]) for line in body.decode().splitlines() if line.startswith("#"))


def _words(texts: Any) -> str:
    return " ".join(" ".join(texts).split())
