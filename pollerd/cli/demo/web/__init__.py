"""The web of `pollerd demo`: small, on loopback, with known true changes."""

from pollerd.cli.demo.web.score import Score, Watched, happened_since, score
from pollerd.cli.demo.web.server import DemoWeb
from pollerd.cli.demo.web.sites import DemoSite, SiteKind

__all__ = ["DemoSite", "DemoWeb", "Score", "SiteKind", "Watched", "happened_since", "score"]
