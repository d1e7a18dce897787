"""Robots directives of a page: `X-Robots-Tag` headers and meta robots, for all crawlers or one by name.

Interpreted as search engines document it: of several directives, the strictest applies.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

# Rules with a value after the colon; before other colons there is the name of a crawler.
_VALUED = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})


class Directives(Struct, frozen=True, gc=False):
    """noindex: not to be collected. nofollow: its links are not to be followed."""

    noindex: bool = False
    nofollow: bool = False

    def __or__(self, other: Directives) -> Directives:
        return Directives(self.noindex or other.noindex, self.nofollow or other.nofollow)


def of_words(text: str) -> Directives:
    """Parses a comma-separated list of rules, as in a meta element (`NoIndex, max-snippet: 5`)."""
    words = {word.strip().lower() for word in text.split(",")}
    none = "none" in words
    return Directives(none or "noindex" in words, none or "nofollow" in words)


def of_headers(tags: Iterable[str], agent: str) -> Directives:
    """Parses `X-Robots-Tag` headers for the crawler named `agent`, in lower case.

    A name and a colon before a rule (`otherbot: noindex, nofollow`) restrict this rule, and those after it in the same
    header, to that crawler.
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
