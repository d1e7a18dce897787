"""Log of finished runs, one JSON line each, so that interrupted work can continue."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Self

import msgspec

from pollerd.errors import InvalidValueError
from pollerd.lab.experiments.experiment import RunOutcome
from pollerd.lab.experiments.refusals import naming


class _Line(msgspec.Struct):
    """A finished run as stored in the file."""

    version: int
    size: str
    cell: str
    run: int
    scores: dict[str, float]
    curves: dict[str, list[float]]
    entropy: int = 0


class RunLog:
    """A file of finished runs of one experiment; a context manager.

    Runs of other versions, sizes and entropies stay in it and are not used. A last line torn by a kill is dropped; any
    other invalid line, and a curve of another length than in the cell's other runs (which an edit by hand may leave),
    raises InvalidValueError with the file and the line, and read and write errors raise it with the path.
    """

    def __init__(self, path: Path, version: int, size: str, entropy: int = 0) -> None:
        self._path, self._version, self._size, self._entropy = path, version, size, entropy
        self._done: dict[tuple[str, int], RunOutcome] = {}
        self._lengths: dict[tuple[str, str], int] = {}
        """Points of each curve, by cell and name: the same in all runs."""

    def __enter__(self) -> Self:
        with naming(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._read()
            self._file = self._path.open("a", encoding="utf-8")
        return self

    def __exit__(self, *raised: object) -> None:
        with naming(self._path):
            self._file.close()

    def get(self, key: str, run: int) -> RunOutcome | None:
        """Returns the outcome of a run of the cell with that key, if it was done."""
        return self._done.get((key, run))

    def add(self, key: str, run: int, outcome: RunOutcome) -> None:
        """Adds a finished run; it is in the file when this returns."""
        scores = {name: float(value) for name, value in outcome.scores.items()}
        curves = {name: [float(value) for value in curve] for name, curve in outcome.curves.items()}
        line = _Line(self._version, self._size, key, run, scores, curves, self._entropy)
        with naming(self._path):
            # json, not msgspec: a missing score is NaN, which msgspec turns into null
            self._file.write(json.dumps(msgspec.structs.asdict(line)) + "\n")
            self._file.flush()
        self._done[key, run] = outcome

    def _read(self) -> None:
        if not self._path.exists():
            return
        data = self._path.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            with self._path.open("r+b") as file:
                file.truncate(whole)
        for number, line in enumerate(data[:whole].splitlines(), 1):
            try:
                run = msgspec.convert(json.loads(line), _Line)
            except (ValueError, msgspec.ValidationError) as error:
                raise InvalidValueError(f"{self._path}, line {number}", "a finished run", line[:80]) from error
            self._take(run, number)

    def _take(self, line: _Line, number: int) -> None:
        if (line.version, line.size, line.entropy) != (self._version, self._size, self._entropy):
            return
        for name, curve in line.curves.items():
            points = self._lengths.setdefault((line.cell, name), len(curve))
            if len(curve) != points:
                where = f"curve {name!r} of {self._path}, line {number}"
                raise InvalidValueError(where, f"{points} points, as in the cell's other runs", f"{len(curve)} points")
        self._done[line.cell, line.run] = RunOutcome(line.scores, line.curves)
