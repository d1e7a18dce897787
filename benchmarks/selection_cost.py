"""What a selection costs beside the text of the whole page, on real pages.

    python benchmarks/selection_cost.py --traces DIR

DIR holds `load.py` with page histories (`peer_runs/contents.py` says what is asked of it). Takes one version of each
page of the medium, nearest to `--bytes` first, and reads each by turns as a whole, as without a selection, and by each
selection. Prints the median over the pages of CPU time and of its ratio to the whole page's.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

from peer_runs.contents import pages

from pollerd.detection.normalise import normalise
from pollerd.detection.selection.selection import canonical, compiled

URL = "http://127.0.0.1/"
STEPS: dict[str, dict[str, list[dict[str, object]]]] = {
    "text/html": {
        "one element: `h1`": [{"keep": {"css": "h1"}}],
        "elements: `p, li`": [{"keep": {"css": "p, li"}}],
        "`body` without `nav, header, footer`": [{"remove": {"css": "nav, header, footer"}}, {"keep": {"css": "body"}}],
        "XPath: `//p | //li`": [{"keep": {"xpath": "//p | //li"}}],
    },
    "application/json": {
        "JSONPath: `$.Incidents[*].PercentContained`": [{"keep": {"jsonpath": "$.Incidents[*].PercentContained"}}],
        "JSONPath: `$..Name`": [{"keep": {"jsonpath": "$..Name"}}],
    },
    "application/rss+xml": {
        "items: titles": [{"items": {"fields": ["title"]}}],
        "items: titles and links of some": [
            {"items": {"fields": ["title", "link"], "where": {"title": {"text": "a"}}}}
        ],
    },
}
"""Medium -> steps of selections."""


def cheapest(work: Callable[[], object], repeats: int) -> float:
    """Returns the least CPU time of one call, milliseconds."""
    found = []
    for _ in range(repeats):
        start = time.process_time_ns()
        work()
        found.append(time.process_time_ns() - start)
    return min(found) / 1e6


def bodies(traces: Path, medium: str, size: int, number: int) -> list[bytes]:
    """Returns a version of each of so many pages of the medium, those nearest to the size."""
    nearest = [
        min(page.bodies, key=lambda body: abs(len(body) - size))
        for page in pages(traces).values()
        if page.media == medium
    ]
    return sorted(nearest, key=lambda body: abs(len(body) - size))[:number]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, required=True)
    parser.add_argument("--medium", choices=STEPS, default="text/html", help="of the pages (default %(default)s)")
    parser.add_argument("--bytes", type=int, default=15_000, help="of the pages, about (default %(default)s)")
    parser.add_argument("--number", type=int, default=8, help="of pages (default %(default)s)")
    parser.add_argument("--repeats", type=int, default=60, help="calls of each on each page (default %(default)s)")
    options = parser.parse_args()
    taken = bodies(options.traces, options.medium, options.bytes, options.number)
    readers = {
        name: compiled(canonical({"default": {"steps": steps}}))["default"].read
        for name, steps in STEPS[options.medium].items()
    }
    costs: dict[str, list[float]] = {name: [] for name in ("whole page", *readers)}
    for body in taken:
        costs["whole page"].append(cheapest(partial(normalise, body, options.medium), options.repeats))
        for name, read in readers.items():
            costs[name].append(cheapest(partial(read, body, options.medium, URL), options.repeats))
    print(f"{len(taken)} pages of {min(map(len, taken)):,} to {max(map(len, taken)):,} bytes\n")
    print("| read | CPU ms | of the whole page's |\n| --- | --- | --- |")
    for name, found in costs.items():
        ratio = median(one / whole for one, whole in zip(found, costs["whole page"], strict=True))
        print(f"| {name} | {median(found):.3f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
