"""Rules of robots.txt as people write them."""

from __future__ import annotations

import pytest

from pollerd.scheduling.robots import RobotsRules

ALL = "User-agent: *\n"


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("Crawl-delay: 10", 10.0),
        ("crawl-delay:.5", 0.5),
        ("Crawl-Delay: 0,5", 0.5),
        ("Crawl-delay: 10s", 10.0),
        ("Crawl-delay: 10 seconds", 10.0),
        ("Crawl-delay : 10 sec. # please", 10.0),
        ("Crawl-delay: 500ms", 0.5),
        ("Crawl-delay: 250 milliseconds", 0.25),
        ("Crawl-delay: 2 min", 120.0),
        ("Crawl-delay: 1m", 60.0),
        ('Crawl-delay: "10"', 10.0),
        ("Crawl-delay: 10;", 10.0),
        ("Crawl-delay= 10", 10.0),
        ("crawl_delay: 10", 10.0),
        ("crawldelay 10", 10.0),
        ("Crawl-delay: 1e1", 10.0),
        ("Crawl-delay: -5", 0.0),
        ("Crawl-delay: none", 0.0),
        ("Crawl-delay: 5-10", 0.0),
        ("Crawl-delay: inf", 0.0),
        ("Crawl-delay:", 0.0),
        ("# Crawl-delay: 10s", 0.0),
    ],
)
def test_crawl_delays(line: str, seconds: float) -> None:
    assert RobotsRules(f"{ALL}{line}\nDisallow: /x\n".encode(), "pollerd").crawl_delay() == seconds


@pytest.mark.parametrize(
    "text",
    [
        f"{ALL}Disallow: /x\n".encode("utf-8-sig"),
        f"{ALL}Disallow: /x\n".encode("utf-16"),
        f"Sitemap: /a\n\ufeff{ALL}Disallow: /x\n".encode(),
        f"{ALL}Disallow: /x\n".replace("\n", "\r").encode(),
        f"{ALL}Disallow: /x\n".encode() + b"# caf\xe9",
    ],
)
def test_encodings_and_line_ends(text: bytes) -> None:
    rules = RobotsRules(text, "pollerd")
    assert rules.allows("https://a.example/y")
    assert not rules.allows("https://a.example/x")
