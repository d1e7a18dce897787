"""Contents of the sites: pages and a feed whose visible text depends on the seed and the number of changes so far."""

from __future__ import annotations

from collections.abc import Sequence
from email.utils import formatdate

import numpy as np

_LATEST = 6
_PARAGRAPHS = 4
_FEED_WINDOW = 20
_SUBJECTS = [
    "The harbour",
    "A new ferry",
    "The town council",
    "The museum",
    "A night train",
    "The old bridge",
    "The market",
]
_VERBS = ["opens", "closes early", "moves", "welcomes visitors", "is repaired", "asks for patience", "grows"]
_PLACES = ["in the north", "by the river", "near the station", "at the square", "on the island", "behind the mill"]
_WHEN = ["this week", "on Monday", "after the summer", "until further notice", "for one day", "at dawn"]


def sentence(seed: int, number: int) -> str:
    """Returns a random sentence; the same for the same seed and number."""
    rng = np.random.default_rng([seed, number])
    words = (str(rng.choice(part)) for part in (_SUBJECTS, _VERBS, _PLACES, _WHEN))
    return " ".join(words) + f" ({number})."


def page(title: str, seed: int, version: int, token: str) -> str:
    """Returns a page after its `version`-th change (>= 0). `token` differs at every request and is invisible."""
    latest = "".join(f"<li>{sentence(seed, n)}</li>\n" for n in range(version, version - _LATEST, -1) if n >= 0)
    body = "".join(f"<p>{sentence(seed, 1_000_000 + n)}</p>\n" for n in range(_PARAGRAPHS))
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="csrf-token" content="{token}">
<link rel="stylesheet" href="/static/site.css?v={token}">
<style>body {{ font: 16px/1.5 serif; max-width: 40em; margin: auto }}</style>
<script>window.session = "{token}"; window.loaded = Date.now();</script>
</head><body>
<!-- rendered for {token} -->
<nav><ul><li><a href="/">Home</a></li><li><a href="/about?s={token}">About</a></li>
<li><a href="/contact">Contact</a></li></ul></nav>
<main><h1>{title}</h1>
<h2>Latest</h2>
<ul>
{latest}</ul>
<h2>Background</h2>
{body}<form method="post" action="/subscribe"><input type="hidden" name="token" value="{token}">
<label>Mail <input type="email" name="mail"></label> <button>Subscribe</button></form>
</main>
<footer><p>Made up by pollerd's demo.</p></footer>
<script async src="/static/track.js?id={token}"></script>
</body></html>
"""


def feed(title: str, url: str, seed: int, published: Sequence[float], built_at: float) -> str:
    """Returns an RSS 2.0 feed of the newest 20 entries, newest first; published: dates of all (epoch s, ascending)."""
    first = max(0, len(published) - _FEED_WINDOW)
    items = "".join(
        f"<item><title>{sentence(seed, n)}</title><link>{url}#{n}</link><guid>{url}#{n}</guid>"
        f"<pubDate>{formatdate(published[n], usegmt=True)}</pubDate>"
        f"<description>{sentence(seed, 1_000_000 + n)}</description></item>\n"
        for n in range(len(published) - 1, first - 1, -1)
    )
    return f"""<?xml version="1.0" encoding="utf-8"?>
<rss version="2.0"><channel><title>{title}</title><link>{url}</link><description>Made up</description>
<lastBuildDate>{formatdate(built_at, usegmt=True)}</lastBuildDate>
{items}</channel></rss>
"""
