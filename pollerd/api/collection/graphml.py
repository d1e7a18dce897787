"""GraphML (graphml.graphdrawing.org, 1.0) of pages and links, for networkx, Gephi and yEd."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from xml.sax.saxutils import escape

NAMESPACE = "http://graphml.graphdrawing.org/xmlns"
NODE_KEYS = {
    "url": "string",
    "state": "string",
    "reason": "string",
    "depth": "long",
    "relevance": "double",
    "worth": "double",
    "parent_id": "long",
    "discovered_at": "string",
    "asked_at": "string",
    "modified_at": "string",
    "site_id": "long",
    "own": "boolean",
}
"""Node attributes and their types. Unknown values are left out."""
EDGE_KEY = "anchor"
TAIL = "</graph>\n</graphml>\n"


def head() -> str:
    """Returns the document up to the first node."""
    keys = [
        f'<key id="{name}" for="node" attr.name="{name}" attr.type="{kind}"/>\n' for name, kind in NODE_KEYS.items()
    ]
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        f'<graphml xmlns="{NAMESPACE}" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
        f' xsi:schemaLocation="{NAMESPACE} {NAMESPACE}/1.0/graphml.xsd">\n{"".join(keys)}'
        f'<key id="{EDGE_KEY}" for="edge" attr.name="{EDGE_KEY}" attr.type="double"/>\n'
        '<graph id="collection" edgedefault="directed">\n'
    )


def node(page: Mapping[str, Any]) -> str:
    """Returns a page's node, from its values; its node id is p followed by its id."""
    data = [f'<data key="{name}">{_text(page[name])}</data>' for name in NODE_KEYS if page[name] is not None]
    return f'<node id="p{page["id"]}">{"".join(data)}</node>\n'


def edge(source_id: int, target_id: int, anchor: float) -> str:
    """Returns the edge of a link, with the score of its text."""
    return f'<edge source="p{source_id}" target="p{target_id}"><data key="{EDGE_KEY}">{anchor!r}</data></edge>\n'


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    if not text.isprintable():
        # Removes them all: some cannot occur in XML, and none matters.
        text = "".join(filter(str.isprintable, text))
    return escape(text)
