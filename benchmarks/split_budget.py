"""What several nodes with one budget find on recorded changes, against one allocator over all pages.

    python benchmarks/split_budget.py --traces FILE.npz --sources claude_code_docs,mise_versions --times 0.5,2

The file has for each source the arrays `NAME/ids` (UTF-8 text, a line a page), `NAME/times` (s, page after page,
sorted), `NAME/indptr` (first change of each page), `NAME/birth` and `NAME/end` (when each page was first and last
seen). A source `all` is all of `--pool`, each shifted to begin at 0. Budgets are multiples of the changes per second.
Pages are on hosts: up to the first slash of their id; a hash of it decides on the node. The first 30 % of the time are
left out, and pages that did not change in the rest. Printed are, of each half of the polls, the share that found a
change, and the share of the time for which copies were current; of several nodes, as shares of what one allocator has.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.contract import Allocator
from pollerd.allocation.registry import create
from pollerd.lab.environments.histories import History, HistoryChanges
from pollerd.lab.environments.nodes import NodesRecord, Sharing, drive_nodes, nodes_of

SKIP, MAX_PAGES = 0.3, 300
WAYS: dict[str, Sharing] = {"one price": "price", "by pages": "sites", "even": "even"}


def pages_of(file: Path, name: str, most: int) -> dict[str, NDArray[np.float64]]:
    """Returns the times of changes of each page, s since the begin of what is used of the source."""
    with np.load(file) as every:
        ids = every[f"{name}/ids"].tobytes().decode().split("\n")
        times, indptr = (every[f"{name}/{part}"].astype(np.float64) for part in ("times", "indptr"))
        first, last = float(every[f"{name}/birth"].min()), float(every[f"{name}/end"].max())
    begin = first + SKIP * (last - first)
    bounds = indptr.astype(np.int64)
    found = {page: times[bounds[k] : bounds[k + 1]] - begin for k, page in enumerate(ids)}
    found = {page: at[at > 0] for page, at in found.items() if (at > 0).any()}
    if len(found) > most:
        chosen = np.random.default_rng(0).choice(len(found), most, replace=False)
        found = {page: at for k, (page, at) in enumerate(found.items()) if k in set(chosen.tolist())}
    return found


def pooled(file: Path, names: list[str], most: int) -> dict[str, NDArray[np.float64]]:
    """Returns the pages of several sources in the time that all of them last."""
    every = {f"{name}:{page}": at for name in names for page, at in pages_of(file, name, most).items()}
    ends = [max(at[-1] for page, at in every.items() if page.startswith(f"{name}:")) for name in names]
    within = {page: at[at <= min(ends)] for page, at in every.items()}
    return {page: at for page, at in within.items() if len(at)}


def run(
    pages: dict[str, NDArray[np.float64]], times: float, most_polls: int, objective: str
) -> tuple[int, Callable[[NDArray[np.int64], Sharing], NodesRecord]]:
    """Returns the number of polls, and what drives pages on nodes, int64[n], with a way to share the budget."""
    counts = np.array([len(at) for at in pages.values()], np.int64)
    span = max(float(at[-1]) for at in pages.values())
    history = History(tuple(pages), np.concatenate(list(pages.values())), counts, span)
    polls = int(min(counts.sum() * times, most_polls))
    step = span / (counts.sum() * times)

    def make(budget: float) -> Allocator:
        return create("whittle", budget=budget, objective=objective, rng=np.random.default_rng(1))

    every = max(len(pages) // 8, 16)

    def drive(node: NDArray[np.int64], sharing: Sharing) -> NodesRecord:
        changes = HistoryChanges(history, step)
        return drive_nodes(make, changes, node, polls, sharing=sharing, divide_every=every, objective=objective)

    return polls, drive


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, required=True, help="file of recorded changes")
    parser.add_argument("--sources", required=True, help="names, separated by commas; `all`: all of --pool")
    parser.add_argument("--pool", default="", help="sources of `all`, separated by commas")
    parser.add_argument("--times", default="0.5,2", help="budgets as multiples of the changes per second")
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--divisions", type=int, default=0, help="means over so many divisions of hosts over nodes")
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--pages", type=int, default=MAX_PAGES, help="most pages of a source")
    parser.add_argument("--polls", type=int, default=20_000, help="most polls")
    parser.add_argument("--objective", default="changes")
    options = parser.parse_args()
    names = "".join(f" {name}: 1st half, 2nd half, current |" for name in options.ways)
    print(f"| source, budget, pages, polls | one: 1st half, 2nd half, current |{names}")
    print(f"|{' --- |' * (2 + len(options.ways))}")
    for source in options.sources.split(","):
        if source == "all":
            pages = pooled(options.traces, options.pool.split(","), options.pages)
        else:
            pages = pages_of(options.traces, source, options.pages)
        for times in map(float, options.times.split(",")):
            polls, drive = run(pages, times, options.polls, options.objective)
            one = drive(np.zeros(len(pages), np.int64), "even")
            halves, whole = one.detections([polls // 2, polls]), polls * len(pages)
            shown = [f"{halves[0]:.3f}, {halves[1]:.3f}, {1 - one.stale / whole:.3f}"]
            hosts = [page.split("/")[0] for page in pages]
            divisions = range(1, options.divisions + 1) if options.divisions else [0]
            for sharing in (WAYS[name] for name in options.ways):
                records = [drive(_used(nodes_of(hosts, options.nodes, number)), sharing) for number in divisions]
                shares = [record.detections([polls // 2, polls]) / halves for record in records]
                current = [[(whole - record.stale) / (whole - one.stale)] for record in records]
                shown.append(", ".join(map(_shown, np.hstack([shares, current]).T)))
            print(f"| {source} x{times:g}, {len(pages)}, {polls} | {' | '.join(shown)} |", flush=True)


def _used(node: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the nodes numbered without those that have no pages."""
    return np.asarray(np.unique(node, return_inverse=True)[1], np.int64)


def _shown(values: NDArray[np.float64]) -> str:
    """Returns the mean, and its standard error if there are several."""
    if len(values) < 2:
        return f"{values[0]:.3f}"
    return f"{values.mean():.3f} ± {values.std(ddof=1) / len(values) ** 0.5:.3f}"


if __name__ == "__main__":
    main()
