"""Finds a text in another: case ignored by full case folding ("STRASSE" is found by "straße"), or not."""

from __future__ import annotations

from collections.abc import Iterator


class TextMatch:
    """A found text: fits `PatternMatch`."""

    __slots__ = ("_end", "_start", "_text")

    def __init__(self, text: str, start: int, end: int) -> None:
        self._text, self._start, self._end = text, start, end

    def group(self, group: int | str = 0) -> str:
        """Returns the found text, the only group (0). Raises `IndexError` for others."""
        if group != 0:
            raise IndexError("no such group")
        return self._text[self._start : self._end]

    def start(self) -> int:
        """Returns where it begins."""
        return self._start

    def end(self) -> int:
        """Returns where it ends: the index after its last character."""
        return self._end


class TextFinder:
    """Finds a text; in time linear in what is searched. `case`: upper and lower case differ."""

    groups = 0
    names: frozenset[str] = frozenset()

    def __init__(self, text: str, case: bool) -> None:
        self._case = case
        self._wanted = text if case else text.casefold()

    def search(self, text: str) -> bool:
        """Returns whether the text is in the other."""
        if self._case:
            return self._wanted in text
        folded = text.casefold()
        if self._wanted not in folded:
            return False
        return len(folded) == len(text) or next(self.finditer(text), None) is not None

    def finditer(self, text: str) -> Iterator[TextMatch]:
        """Yields the places from left to right, none within another."""
        folded = text if self._case else text.casefold()
        starts = None if len(folded) == len(text) else _starts(text)
        at, length = folded.find(self._wanted), len(self._wanted)
        while at >= 0:
            start, end = at, at + length
            if starts is None or (start in starts and end in starts):
                yield TextMatch(text, *((start, end) if starts is None else (starts[start], starts[end])))
                at = folded.find(self._wanted, end)
            else:  # it begins or ends within a folded character: half of ß is no s
                at = folded.find(self._wanted, at + 1)


def _starts(text: str) -> dict[int, int]:
    """Index in the folded text of each character and of the end → index in the text."""
    starts, at = {}, 0
    for index, sign in enumerate(text):
        starts[at] = index
        at += len(sign.casefold())
    starts[at] = len(text)
    return starts
