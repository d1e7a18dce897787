"""Finished runs, one JSON line each, so that work that was broken off goes on where it stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Self

from pollerd.errors import InvalidValueError
from pollerd.simulation.experiments.experiment import Outcome


class Ledger:
    """A file of finished runs of one experiment; a context manager.

    Runs of other versions and sizes stay in it and are not used. A last line that was torn by a kill is dropped; for
    any other line that is no run InvalidValueError names the file and the line.
    """

    def __init__(self, path: Path, version: int, size: str) -> None:
        self._path, self._version, self._size = path, version, size
        self._done: dict[tuple[str, int], Outcome] = {}

    def __enter__(self) -> Self:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._read()
        self._file = self._path.open("a", encoding="utf-8")
        return self

    def __exit__(self, *raised: object) -> None:
        self._file.close()

    def get(self, key: str, run: int) -> Outcome | None:
        """The outcome of a run of the cell with that key, if it was done."""
        return self._done.get((key, run))

    def add(self, key: str, run: int, outcome: Outcome) -> None:
        """Notes a finished run; it is in the file when this returns."""
        line = {
            "version": self._version,
            "size": self._size,
            "cell": key,
            "run": run,
            "scores": {name: float(value) for name, value in outcome.scores.items()},
            "curves": {name: [float(value) for value in curve] for name, curve in outcome.curves.items()},
        }
        self._file.write(json.dumps(line) + "\n")
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
                self._take(json.loads(line))
            except (ValueError, KeyError, TypeError) as error:
                raise InvalidValueError(f"{self._path}, line {number}", "a finished run", line[:80]) from error

    def _take(self, line: dict[str, Any]) -> None:
        if (line["version"], line["size"]) == (self._version, self._size):
            self._done[line["cell"], line["run"]] = Outcome(line["scores"], line["curves"])
