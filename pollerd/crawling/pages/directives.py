"""What a page asks of robots: `X-Robots-Tag` headers and meta robots, for all of them or for one by its name.

Read as search engines document it: where several speak, the strictest holds.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

# Rules that have a value behind a colon, where else the name of a crawler stands.
_VALUED = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})


class Directives(Struct, frozen=True, gc=False):
    """noindex: not to be collected. nofollow: its links are not to be followed."""

    noindex: bool = False
    nofollow: bool = False

    def __or__(self, other: Directives) -> Directives:
        return Directives(self.noindex or other.noindex, self.nofollow or other.nofollow)


def of_words(text: str) -> Directives:
    """What a list of rules parted by commas asks for, as a meta element has it (`NoIndex, max-snippet: 5`)."""
    words = {word.strip().lower() for word in text.split(",")}
    none = "none" in words
    return Directives(none or "noindex" in words, none or "nofollow" in words)


def of_headers(tags: Iterable[str], agent: str) -> Directives:
    """What `X-Robots-Tag` headers ask of the crawler named `agent`, in lower case.

    A name and a colon before a rule (`otherbot: noindex, nofollow`) make this rule, and those behind it in the same
    header, that crawler's alone.
    """
    asked = Directives()
    for tag in tags:
        ours = True
        for rule in tag.split(","):
            name, colon, rest = rule.strip().lower().partition(":")
            if colon and name.strip() not in _VALUED:
                ours, name = name.strip() == agent, rest
            if ours:
                asked |= of_words(name)
    return asked
