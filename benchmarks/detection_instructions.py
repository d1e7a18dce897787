"""Instructions of one poll's detection at sites without selections: before there were selections, and now.

    python benchmarks/detection_instructions.py DIR

DIR is a checkout from before there were selections (`git worktree add --detach DIR 3ee4b03`). Runs polls of an HTML
page of 15 kB in both trees, from the request to the detection, by a client that answers at once. Instructions are
counted by valgrind (cachegrind), which has to be installed: other than times they hardly depend on what else the
machine does. Each figure is the difference of two runs, divided by the number of polls between them, so that the start
of the interpreter does not count.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from detection_cost import page

from pollerd.allocation import registry
from pollerd.daemon.poll import Poller, PollParts
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.detection.detect import detect
from pollerd.model import Baseline, Outcome, OutcomeKind
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.site_settings import SiteSpec
from pollerd.storage.values import SiteContext

URL, SIZE, AT = "http://127.0.0.1/", 15_000, 1_000_000.0
CALLS = {"304": 10_000, "200, same bytes": 10_000, "200, changed": 2_000}
"""Polls, and how many of them a run has more than the other: the start of the interpreter is billions of instructions,
and differs by some millions from run to run."""
FEW = 20


def answer(*, changed: bool) -> Outcome:
    """Returns an answer with an HTML page, or with the same but for a word more."""
    text = page(random.Random(1), SIZE)
    body = (text.replace("<h1>Page", "<h1>Page new", 1) if changed else text).encode()
    return Outcome(OutcomeKind.BODY, AT, 0.1, 200, len(body), body, "text/html; charset=utf-8")


class Client:
    """Answers each poll with the same; the client of polls as it is now, and as it was before."""

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome

    async def get(self, *_: object) -> Outcome:
        """Returns the answer."""
        return self._outcome

    fetch = get


def polling(kind: str) -> Callable[[], object]:
    """Returns a poll of a site without selections, up to its detection; it is the same at each call."""
    baseline = detect(answer(changed=False), Baseline(), None).baseline
    outcome = answer(changed=kind == "200, changed")
    if kind == "304":
        outcome = Outcome(OutcomeKind.NOT_MODIFIED, AT, 0.1, 304)
    allocator = registry.create("uniform", budget=1.0, objective="changes", rng=np.random.default_rng(1))
    scheduler = SchedulerState(settings=SchedulingSettings(), allocator_name="uniform", allocator=allocator)
    scheduler.add([1], [(1, "127.0.0.1:80")], [SiteSpec(URL)])
    scheduler.sites.last_seen[0] = AT - 60
    settings = SimpleNamespace(full_get_every=100, tick_seconds=0.1)
    others = SimpleNamespace(health=None, rng=np.random.default_rng(1), instruments=SimpleNamespace(tick=None))
    runtime = SimpleNamespace(workers=None, faults=None, clock=lambda: AT, settings=settings, **vars(others))
    parts = PollParts(
        client=cast(Any, Client(outcome)),
        budget=cast(Any, SimpleNamespace(pacer=SimpleNamespace(send=len))),
        crawl=None,
        **dict.fromkeys(
            ("chooser", "robots", "redirects", "in_flight", "outage_filter", "site_cache"), cast(Any, None)
        ),
    )
    poller = Poller(scheduler=scheduler, parts=parts, runtime=cast(Any, runtime))
    context = SiteContext(1, URL, baseline=baseline)

    def once() -> object:
        poll = poller.poll(0, context)
        try:
            poll.send(None)
        except StopIteration as ended:
            return ended.value
        raise SystemExit("the poll waits for something")

    wanted = {"304": OutcomeKind.NOT_MODIFIED, "200, same bytes": OutcomeKind.UNCHANGED}
    found = cast(Any, once()).detection
    if found is None or found.kind is not wanted.get(kind, OutcomeKind.CHANGED):
        raise SystemExit(f"{kind}: {found}")
    return once


def command(case: str, calls: int) -> list[str]:
    return [sys.executable, str(Path(__file__).resolve()), ".", "--case", case, "--calls", str(calls)]


def environment(tree: Path) -> dict[str, str]:
    here = str(Path(__file__).resolve().parent)
    return os.environ | {
        "PYTHONPATH": os.pathsep.join([str(tree), here]),
        "PYTHONHASHSEED": "0",
        "OPENBLAS_NUM_THREADS": "1",
    }


def counted(tree: Path, case: str, calls: int) -> int:
    """Returns the instructions of a whole run."""
    valgrind = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    ran = subprocess.run(
        [*valgrind, *command(case, calls)], env=environment(tree), capture_output=True, text=True, check=False
    )
    told = re.search(r"I\s+refs:\s+([\d,]+)", ran.stderr)
    if ran.returncode or told is None:
        raise SystemExit(f"{case}: {ran.stderr[-2000:]}")
    return int(told[1].replace(",", ""))


def instructions(tree: Path, case: str) -> float:
    """Returns the instructions of one call."""
    return (counted(tree, case, FEW + CALLS[case]) - counted(tree, case, FEW)) / CALLS[case]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, metavar="DIR", help="a checkout from before there were selections")
    parser.add_argument("--case", choices=CALLS, help="polls in this process, and prints nothing")
    parser.add_argument("--calls", type=int, default=0, help="with --case: number of polls")
    options = parser.parse_args()
    if options.case:
        poll = polling(options.case)
        for _ in range(options.calls):
            poll()
        return
    here = Path(__file__).resolve().parent.parent
    print("| poll, without a selection | instructions before | now | ratio |\n| --- | --- | --- | --- |")
    for case in CALLS:
        before, now = instructions(options.before.resolve(), case), instructions(here, case)
        print(f"| {case} | {before:,.0f} | {now:,.0f} | {now / before:.4f} |", flush=True)


if __name__ == "__main__":
    main()
