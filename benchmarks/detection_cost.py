"""CPU milliseconds of one detection, by kind of body: `python benchmarks/detection_cost.py --help`."""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable

import orjson
from selectolax.lexbor import LexborHTMLParser

from pollerd.detection.detect import detect
from pollerd.model import Baseline, Outcome, OutcomeKind

WORDS = ["poll", "change", "page", "time", "feed", "index", "news", "item", "report", "city", "water", "price"]


def page(rng: random.Random, size: int) -> str:
    """Returns an HTML page of about `size` bytes: paragraphs with links."""
    parts = ["<!doctype html><html><head><title>Page</title><style>p{}</style></head><body><h1>Page</h1>\n"]
    while sum(map(len, parts)) < size:
        words = " ".join(rng.choices(WORDS, k=rng.randint(20, 90)))
        parts.append(f'<p>{words}. <a href="/p/{rng.randrange(10_000)}">{rng.choice(WORDS)}</a></p>\n')
    return "".join(parts) + "</body></html>\n"


def table(rng: random.Random, size: int) -> str:
    """Returns an HTML page of about `size` bytes that is mostly markup: an indented table."""
    rows = "".join(
        f'  <tr class="row">\n    <td>{rng.choice(WORDS)}</td>\n    <td><b>{rng.randrange(999)}</b></td>\n  </tr>\n'
        for _ in range(size // 88)
    )
    return f"<!doctype html><html><body><table>\n{rows}</table></body></html>"


def feed(rng: random.Random, size: int) -> str:
    """Returns an RSS feed of about `size` bytes."""
    items = "".join(
        f"<item><guid>{i}</guid><link>http://feed.example/{i}</link><title>{rng.choice(WORDS)}</title>"
        f"<description>{' '.join(rng.choices(WORDS, k=40))}</description></item>"
        for i in range(size // 340)
    )
    return f'<?xml version="1.0"?><rss version="2.0"><channel>{items}</channel></rss>'


def records(rng: random.Random, size: int) -> str:
    """Returns a JSON array of records of about `size` bytes."""
    rows = [{"name": rng.choice(WORDS), "id": i, "price": rng.random()} for i in range(size // 55)]
    return orjson.dumps(rows).decode()


KINDS: dict[str, tuple[Callable[[random.Random, int], str], str, str]] = {
    "html, paragraphs": (page, "text/html; charset=utf-8", "</p>\n"),
    "html, table": (table, "text/html; charset=utf-8", "</td>\n"),
    "rss": (feed, "application/rss+xml", "</description>"),
    "json": (records, "application/json", '"name":"'),
    "text": (page, "text/plain", "</p>\n"),
    "binary": (page, "image/png", "</p>\n"),
}


def cpu_ms(work: Callable[[], object], repeats: int) -> float:
    """Returns the least CPU time of one call in five rounds, in milliseconds."""
    rounds = []
    for _ in range(5):
        start = time.process_time()
        for _ in range(repeats):
            work()
        rounds.append((time.process_time() - start) / repeats)
    return min(rounds) * 1e3


def costs(kind: str, size: int, repeats: int) -> tuple[int, float, float]:
    """Returns bytes of the body, ms if it changed, ms if it is byte for byte the same."""
    build, content_type, anchor = KINDS[kind]
    old = build(random.Random(1), size)
    new = old.replace(anchor, f"{anchor}new " if anchor.endswith('"') else f"new{anchor}", 1)
    before, after = (
        Outcome(OutcomeKind.BODY, started_at=0.0, duration=0.0, body=text.encode(), content_type=content_type)
        for text in (old, new)
    )
    baseline = detect(before, Baseline(), None).baseline
    changed = detect(after, baseline, 60.0)
    if changed.kind is not OutcomeKind.CHANGED:
        raise SystemExit(f"{kind}: the change was not seen")
    return (
        len(old),
        cpu_ms(lambda: detect(after, baseline, 60.0), repeats),
        cpu_ms(lambda: detect(before, baseline, 60.0), repeats),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=15_000, help="bytes of a body (default %(default)s)")
    parser.add_argument("--repeats", type=int, default=100, help="calls in each of five rounds (default %(default)s)")
    options = parser.parse_args()
    print(f"{'kind':18} {'bytes':>9} {'changed, ms':>12} {'same bytes, ms':>15}")
    for kind in KINDS:
        size, changed, same = costs(kind, options.size, options.repeats)
        print(f"{kind:18} {size:9,} {changed:12.4f} {same:15.4f}")
    html = page(random.Random(1), options.size).encode()
    parse = cpu_ms(lambda: LexborHTMLParser(html), options.repeats)
    print(f"\nfor comparison, parsing the paragraphs alone: {parse:.4f} ms")


if __name__ == "__main__":
    main()
