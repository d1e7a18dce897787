"""What a new reading of a source means for the pages that it brought."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct


class ListedDifference(Struct, frozen=True, gc=False):
    """URLs that a reading adds, takes away and brings back, each in the order in which they were found."""

    joined: tuple[str, ...] = ()
    vanished: tuple[str, ...] = ()
    returned: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.joined or self.vanished or self.returned)


def difference(known: Mapping[str, bool], listed: Iterable[str]) -> ListedDifference:
    """Compares the listed URLs with the known ones: URL -> whether it was listed by the reading before.

    joined: listed and unknown; vanished: listed before and not now; returned: known, not listed before, listed now.
    """
    now = dict.fromkeys(listed)
    return ListedDifference(
        tuple(url for url in now if url not in known),
        tuple(url for url, before in known.items() if before and url not in now),
        tuple(url for url in now if known.get(url) is False),
    )


def doubt(entries: int, before: int | None, most_shrink: float) -> str | None:
    """Returns why a list is not believed where pages are missing from it; None if it is.

    entries: number of pages in it; before: number in the last one that was believed, None: there was none.
    most_shrink: largest share, 0 to 1, by which it may shrink. An empty list is never believed.
    """
    if entries == 0:
        return "it lists no page"
    if before is None or entries >= (1 - most_shrink) * before:
        return None
    return f"it lists {entries:,} pages, and {before:,} before: more than {most_shrink:.0%} less"
