"""Validates a source's settings, for all ways in."""

from __future__ import annotations

from msgspec.structs import replace

from pollerd.api.http import limits
from pollerd.crawling.sources.pattern import check_pattern
from pollerd.errors import InvalidValueError
from pollerd.model import SiteSpec
from pollerd.ranges import SOURCE
from pollerd.storage import SourceSpec

KINDS = ("sitemap", "feed")
HOSTS = ("same", "any")
DEFAULT_HOSTS = {"sitemap": "same", "feed": "any"}
"""By kind: sitemaps list pages of their own host, a feed's links may lead anywhere."""


def check_source(spec: SourceSpec) -> SourceSpec:
    """Returns the spec with its URL normalised and its tags trimmed and deduplicated; empty `hosts`: by its kind.

    Numbers are in the ranges of `SOURCE`; tags and weight as those of a site; the pattern as in `check_pattern`. Raises
    `InvalidValueError`, naming the field.
    """
    _among("kind", spec.kind, KINDS)
    hosts = spec.hosts or DEFAULT_HOSTS[spec.kind]
    _among("hosts", hosts, HOSTS)
    SOURCE["limit"].check(spec.site_limit)
    SOURCE["max_shrink"].check(spec.most_shrink)
    if spec.interval is not None:
        SOURCE["interval"].check(spec.interval)
    if spec.pattern is not None:
        check_pattern(spec.pattern)
    of_sites = limits.check_spec(SiteSpec(spec.url, weight=spec.weight, tags=spec.tags))
    return replace(spec, url=of_sites.url, tags=of_sites.tags, hosts=hosts)


def _among(field: str, given: str, known: tuple[str, ...]) -> None:
    if given not in known:
        raise InvalidValueError(field, f"one of {', '.join(known)}", str(given)[:100])
