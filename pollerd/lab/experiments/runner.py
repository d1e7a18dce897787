"""Runs experiments on all cores.

Results do not depend on the number of cores, on the order, on interruptions, or on the runs of earlier calls.
"""

from __future__ import annotations

import hashlib
import math
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pollerd.errors import InvalidValueError
from pollerd.lab.experiments.experiment import Cell, Experiment, RunOutcome, Size
from pollerd.lab.experiments.results import Results
from pollerd.lab.experiments.run_log import RunLog

LEDGER = "runs.jsonl"
ALONE_SECONDS = 2.0
"""Seconds that this process works alone: starting others takes about as long."""


@dataclass(frozen=True)
class Task:
    """Runs `numbers` of one cell, to be done together."""

    experiment: Experiment
    cell: Cell
    numbers: range
    size: Size


ReportProgress = Callable[[int, int], None]
"""Called with the number of runs done and in all."""


def seed_of(experiment: str, cell: Cell, run: int, entropy: int = 0) -> np.random.SeedSequence:
    """Returns the seed of one run: from the experiment and its entropy, the cell's stream (or the cell) and the run."""
    words = f"{experiment}\0{cell.stream or cell.key}" + (f"\0{entropy}" if entropy else "")
    digest = np.frombuffer(hashlib.sha256(words.encode()).digest(), "<u4")
    return np.random.SeedSequence([*digest.tolist(), run])


def perform(task: Task) -> list[RunOutcome]:
    """Does the task's runs."""
    of = task.experiment
    seeds = [seed_of(of.name, task.cell, run, of.entropy) for run in task.numbers]
    outcomes = of.run_together(task.cell, seeds, task.size)
    if len(outcomes) != len(seeds):
        raise ValueError(f"{of.name}: {len(outcomes)} outcomes of {len(seeds)} runs")
    return outcomes


def conduct(
    experiment: Experiment,
    size: Size,
    folder: Path,
    jobs: int,
    report_progress: ReportProgress,
    *,
    most_runs: int | None = None,
) -> Results:
    """Does the missing runs of an experiment, and combines all its runs.

    folder: contains its ledger; created as needed. jobs: processes, 1: this one. Ctrl-C (KeyboardInterrupt) and an
    exception in a run leave finished runs in the ledger. most_runs: limit of the runs of each cell that count; a later
    call with a larger limit does the missing ones. Batches of runs that are not independent are done whole.
    """
    if jobs < 1:
        raise InvalidValueError("jobs", "at least 1", jobs)
    cells = list(experiment.cells(size))
    if len({cell.key for cell in cells}) != len(cells):
        raise ValueError(f"{experiment.name}: two cells with the same key")
    asked = {cell: experiment.runs_of(cell, size) for cell in cells}
    shown = {cell: range(min(number, most_runs or number)) for cell, number in asked.items()}
    runs = {cell: _with_their_batches(experiment, len(shown[cell]), number) for cell, number in asked.items()}
    with RunLog(folder / LEDGER, experiment.version, size, experiment.entropy) as ledger:
        tasks = _tasks(experiment, runs, size, ledger)
        left = sum(len(task.numbers) for task in tasks)
        total = sum(map(len, runs.values()))
        report_progress(total - left, total)
        for task, outcomes in _performed(tasks, jobs):
            for run, outcome in zip(task.numbers, outcomes, strict=True):
                ledger.add(task.cell.key, run, outcome)
            left -= len(task.numbers)
            report_progress(total - left, total)
        recorded = {cell: [ledger.get(cell.key, run) for run in shown[cell]] for cell in cells}
    complete = {cell: [outcome for outcome in of_cell if outcome is not None] for cell, of_cell in recorded.items()}
    return Results(experiment, size, complete)


def _with_their_batches(experiment: Experiment, shown: int, number: int) -> range:
    """Returns the runs to do if the first `shown` of a cell's `number` count."""
    if experiment.independent:
        return range(shown)
    return range(min(number, math.ceil(shown / experiment.batch) * experiment.batch))


def _tasks(experiment: Experiment, runs: Mapping[Cell, range], size: Size, ledger: RunLog) -> list[Task]:
    """Returns batches of missing runs: the first of all cells, then the second, to leave some of each on a break."""
    starts = range(0, max(map(len, runs.values()), default=0), experiment.batch)
    batches = [(cell, of_cell[start : start + experiment.batch]) for start in starts for cell, of_cell in runs.items()]
    return [
        Task(experiment, cell, batch, size)
        for cell, batch in batches
        if any(ledger.get(cell.key, run) is None for run in batch)
    ]


def _performed(tasks: Sequence[Task], jobs: int) -> Iterator[tuple[Task, list[RunOutcome]]]:
    """Yields tasks with their outcomes as they finish; distributes the rest after `ALONE_SECONDS`."""
    ends = time.monotonic() + ALONE_SECONDS
    for at, task in enumerate(tasks):
        if jobs > 1 and len(tasks) - at > 1 and time.monotonic() >= ends:
            yield from _shared_out(tasks[at:], jobs)
            return
        yield task, perform(task)


def _shared_out(tasks: Sequence[Task], jobs: int) -> Iterator[tuple[Task, list[RunOutcome]]]:
    """Yields tasks with their outcomes as processes finish them."""
    # Processes use all cores; a library with a thread per core within a run would slow down everything.
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(tasks)), context, initializer=_follow_the_parent) as pool:
        futures = {pool.submit(perform, task): task for task in tasks}
        try:
            for future in as_completed(futures):
                yield futures.pop(future), future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in multiprocessing.active_children():
                child.terminate()
            raise


def _follow_the_parent() -> None:
    """Ignores Ctrl-C, which the parent handles, and ends with the parent: a killed parent cannot end its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent,), daemon=True).start()


def _end_after(parent: multiprocessing.process.BaseProcess) -> None:
    parent.join()
    os._exit(1)
