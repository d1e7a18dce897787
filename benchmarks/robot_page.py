"""CPU milliseconds of one page for the focused crawler, by part: `python benchmarks/robot_page.py --help`."""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable

from pollerd.crawler.pages import PageReading, read, recipe_of, strip_session_params
from pollerd.crawler.topics import Topic, TopicSettings, Vocabulary
from pollerd.crawler.traps import ShapeLimits, trap
from pollerd.detection.html import visible_text
from pollerd.lists.links import PageLinks, page_links
from pollerd.model import Media, Outcome, OutcomeKind

URL = "https://example.org/section/page.html"
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def words(rng: random.Random, number: int) -> list[str]:
    """Returns a vocabulary of `number` words."""
    return ["".join(rng.choices(LETTERS, k=rng.randint(3, 10))) for _ in range(number)]


def page(rng: random.Random, language: list[str], size: int, links: int) -> bytes:
    """Returns an HTML page of about `size` bytes with `links` links to several hosts and Zipf-distributed words."""
    weights = [1.0 / rank for rank in range(1, len(language) + 1)]
    text_size = (size - 110 * links) // links
    parts = ["<!doctype html><html><head><title>Page</title></head><body>\n"]
    for number in range(links):
        text = " ".join(rng.choices(language, weights, k=max(text_size // 7, 1)))
        anchor = " ".join(rng.choices(language, weights, k=4))
        href = (
            f"/{rng.choice(language)}/{number}" if number % 3 else f"https://h{number}.example.net/a/b.html?q={number}"
        )
        parts.append(f'<p class="text">{text} <a class="link" href="{href}">{anchor}</a></p>\n')
    return "".join(parts).encode()


def milliseconds(work: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Returns CPU times of one call: the median, and the least, which other processes on the machine affect least."""
    taken = list[float]()
    for _ in range(rounds):
        started = time.process_time()
        work()
        taken.append((time.process_time() - started) * 1e3)
    return statistics.median(taken), min(taken)


def main() -> None:
    """Prints a line per part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kilobytes", type=int, default=50)
    parser.add_argument("--links", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=200)
    given = parser.parse_args()
    rng = random.Random(1)
    language = words(rng, 20_000)
    html = page(rng, language, given.kilobytes * 1000, given.links)
    background = tuple(visible_text(page(rng, language, 20_000, 20)).decode() for _ in range(50))
    examples = tuple(" ".join(rng.choices(language, k=300)) for _ in range(5))
    vocabulary = Vocabulary()
    for text in background:
        vocabulary.add(text)
    topic = Topic(examples, language[100:110], vocabulary)
    found = page_links(html, URL)

    def spelled() -> list[str | None]:
        limits = ShapeLimits()
        return [trap(url) for link in found.links if limits.admit(url := strip_session_params(link.url))]

    def scored() -> float:
        topic.scores([link.anchor for link in found.links])
        return topic.score(visible_text(html).decode())

    def linked() -> PageLinks:
        return page_links(html, URL)

    recipe = recipe_of(TopicSettings("benchmark", examples, tuple(language[100:110]), background))
    outcome = Outcome(OutcomeKind.BODY, 0.0, 0.1, 200, body=html, content_type="text/html; charset=utf-8")

    def as_live() -> PageReading:
        return read(recipe, URL, outcome, Media.HTML, visible_text(html))

    print(f"page of {len(html):,} bytes with {len(found.links)} links, CPU ms:")
    print(f"  {'':22} {'median':>6} {'least':>6}")
    parts = {"links, normalised": linked, "spelling and traps": spelled, "text and scores": scored}
    costs = {name: milliseconds(work, given.rounds) for name, work in parts.items()}
    medians, least = zip(*costs.values(), strict=True)
    costs["all"] = sum(medians), sum(least)
    costs["text, and all as live"] = milliseconds(as_live, given.rounds)
    for name, (middle, lowest) in costs.items():
        print(f"  {name:22} {middle:6.2f} {lowest:6.2f}")


if __name__ == "__main__":
    main()
