"""The hosts of the collection and the links between them, for a picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, select

from pollerd.model import PageState
from pollerd.storage.db.schema.crawler import page, page_host, page_link

NEWEST_PAGES = 5_000
"""Pages of the collection that are looked at: the newest."""
MOST_LINKS = 50_000


@dataclass(frozen=True, slots=True)
class HostGraph:
    """Hosts by number of pages, most first, and links between them."""

    names: Sequence[str]
    """name:port"""
    pages: Sequence[int]
    links: Sequence[tuple[int, int, int]]
    """(host, host, links between them in either direction); hosts as positions in `names`."""


def host_graph(connection: Connection, most: int) -> HostGraph:
    """Returns the graph of the `most` largest hosts of the newest pages of the collection."""
    collected = select(page.c.id, page.c.host_id).where(page.c.state == PageState.COLLECTED.value)
    newest = collected.order_by(page.c.id.desc()).limit(NEWEST_PAGES)
    host_of = {row.id: row.host_id for row in connection.execute(newest)}
    largest = [host for host, _ in Counter(host_of.values()).most_common(most)]
    sizes, position = Counter(host_of.values()), {host: n for n, host in enumerate(largest)}
    named = connection.execute(select(page_host.c.id, page_host.c.name).where(page_host.c.id.in_(largest)))
    names = {row.id: row.name for row in named}
    some = newest.subquery()
    statement = select(page_link.c.source_id, page_link.c.target_id).join(some, some.c.id == page_link.c.source_id)
    between: Counter[tuple[int, int]] = Counter()
    for source, target in connection.execute(statement.limit(MOST_LINKS)):
        ends = [position.get(host_of.get(one, -1)) for one in (source, target)]
        if ends[0] is not None and ends[1] is not None and ends[0] != ends[1]:
            between[min(ends[0], ends[1]), max(ends[0], ends[1])] += 1
    links = [(first, second, count) for (first, second), count in sorted(between.items())]
    return HostGraph([names.get(host, "?") for host in largest], [sizes[host] for host in largest], links)
