"""Settings of a topic, and limits of its crawl."""

from __future__ import annotations

from dataclasses import dataclass

from pollerd.crawling.pages.stems import LANGUAGES
from pollerd.errors import InvalidValueError
from pollerd.urls import host_of

KEEP_SHARE = 0.75
"""Share of the minimum relevance below which a collected page is dropped: scores fluctuate."""


@dataclass(frozen=True)
class TopicSettings:
    """A topic and its limits.

    name: of the collection. examples, keywords: texts and words on the topic, at least one of either. background: texts
    on other subjects, to recognise common words. language: one of `stems.LANGUAGES`, to reduce words to their stems;
    "": words as they are. allow_domains: only these and their subdomains (all if empty), deny_domains: never these.
    max_depth: maximum number of links from the nearest seed, >= 0. pages_per_host: maximum number of pages of one host
    that are requested, >= 1. collection_size: maximum number of pages kept, >= 1. relevance_min, above 0, at most 1:
    minimum relevance of collected pages.
    """

    name: str
    examples: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    background: tuple[str, ...] = ()
    language: str = ""
    allow_domains: tuple[str, ...] = ()
    deny_domains: tuple[str, ...] = ()
    max_depth: int = 10
    pages_per_host: int = 1_000
    collection_size: int = 10_000
    relevance_min: float = 0.1

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise InvalidValueError("name", "a name", self.name)
        if not any(text.strip() for text in (*self.examples, *self.keywords)):
            raise InvalidValueError("keywords", "some words, or examples some texts", self.keywords)
        if self.language and self.language not in LANGUAGES:
            raise InvalidValueError("language", f"one of {', '.join(LANGUAGES)}", self.language)
        for name, least in (("max_depth", 0), ("pages_per_host", 1), ("collection_size", 1)):
            if getattr(self, name) < least:
                raise InvalidValueError(name, f"at least {least}", getattr(self, name))
        if not 0 < self.relevance_min <= 1:
            raise InvalidValueError("relevance_min", "above 0, at most 1", self.relevance_min)

    @property
    def relevance_kept(self) -> float:
        """Minimum relevance at which a collected page stays."""
        return KEEP_SHARE * self.relevance_min

    def permits(self, url: str) -> bool:
        """Returns whether a normalised URL is in a domain that is allowed and not denied."""
        host = host_of(url).rpartition(":")[0]
        if any(_within(host, domain) for domain in self.deny_domains):
            return False
        return not self.allow_domains or any(_within(host, domain) for domain in self.allow_domains)


def _within(host: str, domain: str) -> bool:
    domain = domain.lower().strip(".")
    return host == domain or host.endswith("." + domain)
