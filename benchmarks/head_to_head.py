"""changedetection.io, urlwatch and pollerd on the same pages with the same number of requests.

    python benchmarks/head_to_head.py --traces DIR --peers PYTHON [--noise none|all|ruled] [--page FILE]

DIR holds a server of real page histories (`peer_runs/replay.py` and `contents.py` say what is asked of it; it may need
packages of its own, aiohttp and numpy for instance). PYTHON is the interpreter of an environment with
`changedetection.io` and `urlwatch`. pollerd is the command beside the interpreter that runs this, or `--pollerd`. For
Linux: CPU time is read from /proc, and each page has an address of its own in 127.2.0.0/16.

The programs run one after another, each from the same moment of the pages' histories and for the same time.
changedetection.io comes first; the requests that it makes in that time are what the others get: urlwatch as many
rounds over all pages, pollerd a budget, once for each of two objectives. With `--noise all` the server adds to each
HTML page at each request a token, a comment and a clock; `ruled` is the same with a rule against the clock for both
peers (pollerd is not run again).

Writes results.json to `--out`, and replaces the tables in a page that has the marks (`--page docs/peers.md`).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from peer_runs import changedetection_run, pollerd_run, urlwatch_run
from peer_runs.changedetection_run import Instance
from peer_runs.contents import States, pages, whole
from peer_runs.judge import judged
from peer_runs.missed import causes
from peer_runs.replay import Replay, Setting, served
from peer_runs.reports import Run, Window
from peer_runs.tables import Result, section, written_into

SETTINGS = {
    "none": "Pages as they were",
    "all": "With noise at every request",
    "ruled": "With noise, and a rule written against it",
}
COMMAND = "benchmarks/head_to_head.py --traces DIR --peers PYTHON"
OBJECTIVES = (None, "freshness")
"""Of pollerd's runs: its default, `changes`, spends polls where they find something, this one where copies get old."""
_HOUR = 3600.0
_LAG_SECONDS = 1
"""changedetection.io looks once a second which watches are due, so that they come about a second late."""


@dataclass(frozen=True)
class Plan:
    """Seconds of a round, number of rounds, and the hours of the pages' time that a round stands for."""

    interval: int
    rounds: int
    hours: float

    @property
    def seconds(self) -> float:
        """Of one program."""
        return float(self.interval * self.rounds)

    @property
    def speed(self) -> float:
        """Seconds of the pages in one second."""
        return self.hours * _HOUR / self.interval


class Comparison:
    """Runs the programs."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._traces: Path = options.traces
        self._peers: str = options.peers
        self._pollerd: str = options.pollerd
        self._states = States(pages(options.traces), whole)
        self._plan = Plan(options.interval, options.rounds, options.hours)

    def results(self, noise: str, folder: Path) -> Iterator[Result]:
        """Yields the result of each program."""
        setting = Setting(self._plan.speed, "none" if noise == "none" else "all")
        with served(self._traces, setting, folder) as server:
            ruled, seconds = noise == "ruled", self._plan.seconds
            moved = None if noise != "none" else lambda source, below: self._moved(server, source, below)
            first = self._result(
                noise,
                server,
                changedetection_run.run(
                    self._peers,
                    server,
                    every_seconds=self._plan.interval - _LAG_SECONDS,
                    seconds=seconds,
                    folder=folder,
                    ruled=ruled,
                    moved=moved,
                ),
            )
            yield first
            requests = first.score.requests
            rounds = max(1, round(requests / len(server.pages())))
            found = urlwatch_run.run(self._peers, server, rounds=rounds, seconds=seconds, folder=folder, ruled=ruled)
            yield self._result(noise, server, found)
            if not ruled:
                budget = requests / seconds
                for objective in OBJECTIVES:
                    found = pollerd_run.run(
                        self._pollerd, server, budget=budget, seconds=seconds, folder=folder, objective=objective
                    )
                    yield self._result(noise, server, found)

    def _moved(self, server: Replay, source: Instance, folder: Path) -> dict[str, object]:
        return pollerd_run.moved_in(self._pollerd, server, source, folder)

    def _result(self, noise: str, server: Replay, run: Run) -> Result:
        window = Window(run.began, self._plan.seconds, float(self._plan.interval))
        media = {page.id: page.media for page in server.pages()}
        requests = server.requests()
        score = judged(requests, server.changes(), run.reports, window)
        run.notes["load average"] = [round(load, 1) for load in os.getloadavg()]
        return Result(SETTINGS[noise], run, score, media, causes(score, requests, window, self._states))

    def how(self, results: list[Result]) -> str:
        """Returns the paragraph about the run."""
        plan, pages = self._plan, len(results[0].media)
        loads = [result.run.notes["load average"][0] for result in results]
        return (
            f"{time.strftime('%d %B %Y')}, {os.cpu_count()} cores, load average {min(loads):.0f} to {max(loads):.0f}. "
            f"{pages} pages, each repeating its own history; {plan.rounds} rounds of {plan.interval} s, "
            f"{plan.seconds:.0f} s a program. A round stands for {plan.hours:g} hours of the pages, "
            f"a second of delay for {plan.speed / 60:.0f} minutes."
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, required=True, help="folder of the replay server")
    parser.add_argument("--peers", required=True, help="interpreter of the environment with the other programs")
    parser.add_argument("--pollerd", default=str(Path(sys.executable).with_name("pollerd")), help="its command")
    parser.add_argument("--noise", action="append", choices=SETTINGS, help="without it all three")
    parser.add_argument("--interval", type=int, default=8, help="seconds of a round over all pages (default 8)")
    parser.add_argument("--rounds", type=int, default=16, help="rounds of each program (default 16)")
    parser.add_argument("--hours", type=float, default=3.0, help="hours of the pages in a round (default 3)")
    parser.add_argument("--out", type=Path, help="keeps logs and results.json in a folder")
    parser.add_argument("--page", type=Path, help="writes the tables into a page")
    options = parser.parse_args()
    if options.interval < 5:
        parser.error("--interval: at least 5; changedetection.io checks no page more often than every 3 s")
    comparison, results = Comparison(options), []
    with tempfile.TemporaryDirectory() as temporary:
        out = options.out or Path(temporary)
        for noise in options.noise or SETTINGS:
            folder = Path(tempfile.mkdtemp(prefix=f"{noise}-", dir=_made(out)))
            for result in comparison.results(noise, folder):
                results.append(result)
                print(f"{result.setting}: {' | '.join(result.cells())}", flush=True)
                told = json.dumps([each.as_json() for each in results], indent=1)
                (out / "results.json").write_text(f"{told}\n")
        print(told)
    text = section(results, comparison.how(results), COMMAND)
    print(text)
    if options.page:
        written_into(options.page, text)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


if __name__ == "__main__":
    main()
