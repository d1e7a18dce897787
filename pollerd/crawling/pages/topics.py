"""What a collection is to be about, and how far the crawler may go for it."""

from __future__ import annotations

from dataclasses import dataclass

from pollerd.crawling.pages.stems import LANGUAGES
from pollerd.errors import InvalidValueError
from pollerd.urls import host_of

KEEP_SHARE = 0.75
"""A page is dropped below this share of the relevance that it takes to get in: scores waver."""


@dataclass(frozen=True)
class TopicSettings:
    """A topic and its limits.

    name: of the collection. examples, keywords: texts and words on the topic, at least one of either. background:
    texts on other things, to tell common words from telling ones. language: of those in `stems.LANGUAGES`, whose words
    count by their stems; "": words count as they are written. allow_domains: only these and their subdomains (all
    where empty), deny_domains: never these. max_depth: links from the nearest seed, >= 0. pages_per_host: pages of
    one host asked for at most, >= 1. collection_size: pages kept at most, >= 1. relevance_min, above 0, at most 1:
    pages at least so relevant are collected.
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
        """Pages that are in the collection stay as long as they are at least so relevant."""
        return KEEP_SHARE * self.relevance_min

    def permits(self, url: str) -> bool:
        """Whether a normalised URL is in a domain that is allowed and not denied."""
        host = host_of(url).rpartition(":")[0]
        if any(_within(host, domain) for domain in self.deny_domains):
            return False
        return not self.allow_domains or any(_within(host, domain) for domain in self.allow_domains)


def _within(host: str, domain: str) -> bool:
    domain = domain.lower().strip(".")
    return host == domain or host.endswith("." + domain)
