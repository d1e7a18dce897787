"""A small web on loopback whose true changes are known: what `pollerd demo` polls."""

from pollerd.cli.demo.web.score import Score, Watched, happened_since, score
from pollerd.cli.demo.web.server import DemoWeb
from pollerd.cli.demo.web.sites import DemoSite, SiteKind

__all__ = ["DemoSite", "DemoWeb", "Score", "SiteKind", "Watched", "happened_since", "score"]
