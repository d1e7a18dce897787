"""Precision and recall of proofs on the histories of pages, by the pages' own clock: the same at each run.

    python benchmarks/proof_histories.py --traces DIR [--every 7200] [--proof-after 6000] [--noise]

DIR holds `load.py` with page histories (`peer_runs/contents.py` says what is asked of it). Each page is polled every so
many seconds of its own time, and a proof poll comes so many after the poll that asks for it, or with the next regular
one if that is sooner. The parts that the daemon is built of do the rest: detection, the noise step, status and tables,
one page at a time and without network, database and budget. Histories repeat, as in `recall.py`, and what is counted is
the same. `--noise` gives HTML pages a clock, a token and a comment that are others at each request; `--values` a number
that is one of so many at random.

Runs against other checkouts too (PYTHONPATH), back to the first with proofs, to compare.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
from bisect import bisect_right
from collections import Counter
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from msgspec.structs import replace
from peer_runs.contents import SELECTIONS, Page, States, pages, whole
from prometheus_client import CollectorRegistry

from pollerd.allocation import registry
from pollerd.daemon.commit import update_sites
from pollerd.daemon.faults import Faults
from pollerd.daemon.noise import NoiseStep
from pollerd.daemon.proofs import Candidates
from pollerd.daemon.prover import ProofUpdates, Prover
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.daemon.stages import Answer, Found
from pollerd.daemon.transition import record_of
from pollerd.detection.detect import detect
from pollerd.model import Outcome, OutcomeKind, Validators
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.site_settings import SiteSpec
from pollerd.storage.values import SiteContext
from pollerd.telemetry import Instruments

URL, AT = "http://127.0.0.1/", 1_600_000_000.0
PROMPT_SECONDS = 30.0
KNOWING = (OutcomeKind.FIRST, OutcomeKind.CHANGED, OutcomeKind.UNCHANGED, OutcomeKind.NOT_MODIFIED)


def still_noise() -> object | None:
    """Returns what doubts masks; None in a checkout that has none."""
    try:
        from pollerd.daemon.prover import StillNoise
    except ModuleNotFoundError:
        return None
    return StillNoise()


def built(cls: type[Any], **parts: object) -> Any:
    """Returns a part with those of the parts that it takes."""
    taken = inspect.signature(cls).parameters
    return cls(**{name: part for name, part in parts.items() if name in taken})


class Workers:
    """Does at once what the daemon's pool does beside the loop."""

    async def do(self, work: Any, *arguments: object, effort: object = None) -> Any:
        """Returns what the work returns."""
        return work(*arguments)


class Site:
    """One page, polled at moments of its own time; the daemon's clock runs as fast as a proof needs to be prompt."""

    def __init__(self, media: str, scale: float) -> None:
        self._media, self._scale, self._now = media, scale, AT
        budget = 1e-6  # of one site: the uniform period is no shorter than an interval
        allocator = registry.create("uniform", budget=budget, objective="changes", rng=np.random.default_rng(1))
        settings = SchedulingSettings(host_interval_seconds=0.0)
        self._scheduler = SchedulerState(settings=settings, allocator_name="uniform", allocator=allocator)
        self._scheduler.add([1], [(1, "127.0.0.1:80")], [SiteSpec(URL)])
        instruments = Instruments(CollectorRegistry(), "0")
        runtime: Any = SimpleNamespace(
            workers=Workers(),
            clock=lambda: self._now,
            faults=Faults(instruments, lambda: self._now),
            rng=np.random.default_rng(1),
        )
        self._contents: dict[int, bytes] = {}
        self._versions: list[tuple[float, bytes]] = []
        self._candidates, still = Candidates(), still_noise()
        prover = Prover(scheduler=self._scheduler, runtime=runtime)
        parts = {
            "scheduler": self._scheduler,
            "store": self,
            "prover": prover,
            "candidates": self._candidates,
            "still": still,
            "runtime": runtime,
            "instruments": instruments,
        }
        self._noise, self._proofs = built(NoiseStep, **parts), built(ProofUpdates, **parts)
        self._rng = runtime.rng
        self._context = SiteContext(1, URL)

    async def load(self, wanted: list[int]) -> dict[int, bytes]:
        """Returns stored contents."""
        return {one: self._contents[one] for one in wanted if one in self._contents}

    async def dated_versions(self, site_id: int, limit: int) -> list[tuple[float, bytes]]:
        """Returns what the last changes led to, newest first."""
        return self._versions[-limit:][::-1]

    @property
    def waits(self) -> bool:
        """Whether a change waits for its proof."""
        return 1 in self._candidates

    async def poll(self, body: bytes, at: float) -> OutcomeKind:
        """Polls the page; at: seconds of its time. Returns what was recorded."""
        self._now = AT + at / self._scale
        etag = sha256(body).hexdigest()[:16]
        known = Validators() if self.waits else self._context.validators
        same = known.etag == etag
        outcome = Outcome(
            OutcomeKind.NOT_MODIFIED if same else OutcomeKind.BODY,
            self._now,
            0.0,
            304 if same else 200,
            body=None if same else body,
            content_type=self._media,
            validators=Validators(etag=etag),
        )
        if self.waits:
            self._scheduler.sites.proofs.choose([0])
        last = float(self._scheduler.sites.last_seen[0])
        elapsed = self._now - last if last > 0 else None
        result = Found(Answer(0, self._context, outcome), detect(outcome, self._context.baseline, elapsed), alone=True)
        found = await self._noise.recognise([result])
        (result,) = found.results
        records = [record_of(result, found.summaries.get(1, ""), self._scheduler, self._rng)]
        update_sites(self._scheduler, [result], records)
        self._proofs.apply([result])
        return self._recorded(records[0])

    def _recorded(self, record: Any) -> OutcomeKind:
        self._context = record.context
        if record.content is not None:
            number = len(self._contents) + 1
            self._contents = {number: record.content}
            self._context = replace(self._context, content_id=number)
            if record.change is not None:
                self._versions = [*self._versions[-9:], (record.poll.at, record.content)]
        kind: OutcomeKind = record.poll.outcome
        return kind


def served(page: Page, at: float, request: int, options: argparse.Namespace) -> tuple[int, bytes]:
    """Returns the version that is live, and its body."""
    version = bisect_right(page.times, at % page.period) - 1
    body = page.bodies[max(version, 0)]
    if options.values and page.media == "text/html":
        value = sha256(b"%d" % request).digest()[0] % options.values
        body += b"<p>This page was served by machine %d of the farm</p>" % value
    if options.noise and page.media == "text/html":
        token = sha256(b"%d" % request).hexdigest()[:24]
        clock = datetime.fromtimestamp(AT + 7 * request, UTC).strftime("%H:%M:%S")
        body += f"<!-- {token} --><p>Served at {clock}</p><p>Request {token}</p>".encode()
    return max(version, 0), body


async def watched(name: str, page: Page, states: States, options: argparse.Namespace) -> Counter[str]:
    """Polls a page, and counts as `peer_runs/verdicts.py` says."""
    counts: Counter[str] = Counter()
    # Whatever the time between the polls of a proof, it is as if they had come promptly.
    site = Site(page.media, max(options.proof_after / PROMPT_SECONDS * 1.01, 1.0))
    at, known, met = 0.0, None, False
    for number in range(options.polls):
        version, body = served(page, at, number, options)
        state, kind = states.of(name, version), await site.poll(body, at)
        counts["polls"] += 1
        if kind is OutcomeKind.PROVING:
            counts["proving"] += 1
            met |= state != known
        elif kind in KNOWING:
            if known is not None:
                differs = state != known
                if kind is OutcomeKind.CHANGED:
                    counts["found" if differs else "false"] += 1
                elif differs:
                    counts["missed"] += 1
                elif met:
                    counts["gone"] += 1
            known, met = state, False
        at += min(options.proof_after, options.every) if site.waits else options.every
    return counts


def row(name: str, counts: Counter[str]) -> str:
    found, missed, false = counts["found"], counts["missed"], counts["false"]
    shares = [found / (found + false) if found + false else 1.0, found / (found + missed) if found + missed else 1.0]
    cells = [name, counts["polls"], found + missed, found, missed, false, counts["gone"], counts["proving"]]
    return "| " + " | ".join([*map(str, cells), *(f"{share:.3f}" for share in shares)]) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, required=True, help="folder of the page histories")
    parser.add_argument("--every", type=float, default=7_200.0, help="seconds between polls (default %(default)s)")
    parser.add_argument("--proof-after", type=float, default=6_000.0, help="seconds to a proof (default %(default)s)")
    parser.add_argument("--polls", type=int, default=250, help="of each page (default %(default)s)")
    parser.add_argument("--noise", action="store_true", help="in HTML pages")
    parser.add_argument("--values", type=int, default=0, help="in HTML pages: noise of so many values (default none)")
    parser.add_argument("--medium", action="append", choices=SELECTIONS, help="only pages of this one, or of several")
    options = parser.parse_args()
    found = pages(options.traces)
    states, totals = States(found, whole), dict[str, Counter[str]]()
    for name, page in found.items():
        if options.medium and page.media not in options.medium:
            continue
        counts = asyncio.run(watched(name, page, states, options))
        for key in (page.media, "all"):
            totals.setdefault(key, Counter()).update(counts)
        if counts["missed"] or counts["false"]:
            print(row(name, counts))
    print("\n| medium | polls | met | found | missed | false | gone | proving polls | precision | recall |")
    print("|" + " --- |" * 10)
    for name in sorted(totals):
        print(row(name, totals[name]))


if __name__ == "__main__":
    main()
