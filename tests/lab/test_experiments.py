"""The framework of experiments: runs that depend on nothing but their name, ledgers, verdicts, reports."""

from __future__ import annotations

import csv
import json
import math
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pollerd.errors import ConfigError, InvalidValueError
from pollerd.lab.experiments import runner
from pollerd.lab.experiments.catalogue import experiment, experiments
from pollerd.lab.experiments.experiment import MAX_ENTROPY, SIZES, Cell, PublishedValue, RunOutcome, Size, cell
from pollerd.lab.experiments.figures import require_matplotlib
from pollerd.lab.experiments.reproduction import ENTRY, reproduce, write_summary
from pollerd.lab.experiments.results import Estimate, Results, estimate
from pollerd.lab.experiments.run_log import RunLog
from pollerd.lab.experiments.runner import LEDGER, conduct, seed_of
from pollerd.lab.experiments.simulation import edges_up_to, stretch_names
from pollerd.lab.experiments.verdict import agree, compare
from tests.lab.toy_experiments import Dice, Failing, Joint


def silent(done: int, total: int) -> None:
    """Shows nothing."""


@pytest.fixture(params=["alone at first", "shared at once"])
def sharing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether processes are started as soon as there is more than one job."""
    if request.param == "shared at once":
        monkeypatch.setattr(runner, "ALONE_SECONDS", 0.0)


@pytest.mark.usefixtures("sharing")
def test_one_process_or_two_the_numbers_are_the_same(tmp_path: Path) -> None:
    alone = conduct(Dice(), "quick", tmp_path / "one", 1, silent)
    shared = conduct(Dice(), "quick", tmp_path / "two", 2, silent)
    assert alone.estimates == shared.estimates
    assert alone.rows == ["six", "eight", "coin"]
    assert alone.columns == ["mean", "variance"]


class Uneven(Dice):
    """The coin is thrown three times, the dice five."""

    def runs_of(self, cell: Cell, size: Size) -> int:
        return 3 if cell.row == "coin" else 5


def test_cells_may_have_runs_of_their_own(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    results = conduct(Uneven(), "quick", tmp_path, 1, lambda done, total: seen.append((done, total)))
    assert {row: results.estimates[row, "mean"].runs for row in results.rows} == {"six": 5, "eight": 5, "coin": 3}
    assert seen[0] == (0, 13)
    assert seen[-1] == (13, 13)
    fewer = conduct(Uneven(), "quick", tmp_path, 1, silent, most_runs=4)
    assert {row: fewer.estimates[row, "mean"].runs for row in fewer.rows} == {"six": 4, "eight": 4, "coin": 3}
    reproduce(Uneven(), "quick", tmp_path, jobs=1, draw=False, report_progress=silent)
    assert "Size quick, 3 to 5 runs." in (tmp_path / "dice" / "report.md").read_text()


def test_a_seed_is_of_experiment_stream_and_run() -> None:
    six, eight, coin = Dice().cells("quick")

    def draw(name: str, of: Cell, run: int) -> float:
        return float(np.random.default_rng(seed_of(name, of, run)).random())

    assert draw("dice", six, 3) == draw("dice", eight, 3) == draw("dice", six, 3)
    others = {draw("dice", six, 3), draw("dice", six, 4), draw("dice", coin, 3), draw("other", six, 3)}
    assert len(others) == 4
    assert draw("dice", cell("x"), 0) != draw("dice", cell("y"), 0)


def test_the_seeds_of_the_tables_in_the_documentation_stay() -> None:
    six, _, coin = Dice().cells("quick")
    drawn = [int(np.random.default_rng(seed_of("dice", of, 3)).integers(2**32)) for of in (six, coin)]
    assert drawn == [4117899047, 1827531596]
    assert seed_of("dice", six, 3, 0).entropy == seed_of("dice", six, 3).entropy
    others = {str(seed_of("dice", six, 3, entropy).entropy) for entropy in (0, 1, 2, MAX_ENTROPY)}
    assert len(others) == 4


def test_another_entropy_gives_other_runs_and_mixes_with_none(tmp_path: Path) -> None:
    def reproduced(entropy: int) -> str:
        reproduce(
            Dice().with_entropy(entropy), "quick", tmp_path, jobs=1, draw=False, report_progress=silent, most_runs=20
        )
        return (tmp_path / "dice" / "table.csv").read_text()

    printed, other = reproduced(0), reproduced(7)
    assert printed != other
    report, summary = (tmp_path / "dice" / "report.md").read_text(), write_summary(tmp_path).read_text()
    assert "Size quick, 20 runs, entropy 7: other seeds than those of docs/papers." in report
    assert "| quick, entropy 7 |" in summary
    lines = (tmp_path / "dice" / LEDGER).read_bytes().splitlines()
    assert len(lines) == 2 * 60, "both are kept"
    assert (reproduced(0), reproduced(7)) == (printed, other)
    assert (tmp_path / "dice" / LEDGER).read_bytes().splitlines() == lines, "nothing was done again"
    old = [
        json.dumps({key: value for key, value in json.loads(line).items() if key != "entropy"}) for line in lines[:60]
    ]
    (tmp_path / "dice" / LEDGER).write_text("".join(f"{line}\n" for line in old))
    assert reproduced(0) == printed
    assert "entropy" not in (tmp_path / "dice" / "report.md").read_text() + write_summary(tmp_path).read_text()
    assert len((tmp_path / "dice" / LEDGER).read_bytes().splitlines()) == 60, "lines without an entropy are of none"


@pytest.mark.parametrize("entropy", [-1, MAX_ENTROPY + 1])
def test_an_entropy_outside_its_range_is_refused(entropy: int) -> None:
    with pytest.raises(InvalidValueError, match="entropy: must be from 0 to 4294967295"):
        Dice().with_entropy(entropy)


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    first = conduct(Dice(), "quick", tmp_path, 1, silent)
    lines = (tmp_path / LEDGER).read_bytes().splitlines(keepends=True)
    (tmp_path / LEDGER).write_bytes(b"".join(lines[:100]) + lines[100][:17])
    again = conduct(Dice(), "quick", tmp_path, 1, lambda done, total: told.append((done, total)))
    assert told[0] == (100, 600), "the torn line is dropped"
    assert told[-1] == (600, 600)
    assert again.estimates == first.estimates
    assert len((tmp_path / LEDGER).read_bytes().splitlines()) == 600


def test_another_version_or_size_is_done_anew(tmp_path: Path) -> None:
    with RunLog(tmp_path / "runs", 1, "quick") as ledger:
        ledger.add("a", 0, RunOutcome({"x": 1.0, "y": math.nan}, {"c": [1.0, 2.0]}))
    for version, size, known in ((1, "quick", True), (2, "quick", False), (1, "full", False)):
        with RunLog(tmp_path / "runs", version, size) as ledger:
            assert (ledger.get("a", 0) is not None) == known
            assert ledger.get("a", 1) is None
    with RunLog(tmp_path / "runs", 1, "quick") as ledger:
        kept = ledger.get("a", 0)
    assert kept is not None
    assert kept.curves == {"c": [1.0, 2.0]}
    assert math.isnan(kept.scores["y"])


def test_a_curve_of_another_length_is_named(tmp_path: Path) -> None:
    """As an edit by hand leaves it: runs of one cell could not be averaged point by point."""
    with RunLog(tmp_path / "runs", 1, "quick") as ledger:
        ledger.add("a", 0, RunOutcome({}, {"c": [1.0, 2.0]}))
        ledger.add("b", 0, RunOutcome({}, {"c": [1.0]}))
        ledger.add("a", 1, RunOutcome({}, {"c": [1.0, 2.0, 3.0]}))
    told = r"curve 'c' of .*runs, line 3: must be 2 points, as in the cell's other runs"
    with pytest.raises(InvalidValueError, match=told), RunLog(tmp_path / "runs", 1, "quick"):
        pass
    with RunLog(tmp_path / "runs", 2, "quick") as other:
        assert other.get("a", 0) is None


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    run = {"version": 1, "size": "quick", "cell": "a", "run": 0, "scores": {"x": 1.0}, "curves": {"c": [1.0]}}
    strange: dict[str, list[Any]] = {
        "scores": ["abc", {"x": "abc"}, None],
        "curves": [[1], {"c": 1}, {"c": [None]}],
        "run": ["0"],
    }
    lines = [json.dumps({**run, field: value}) for field, values in strange.items() for value in values]
    for damaged in ("{", '{"version": 1}', "7", "null", *lines):
        (tmp_path / "runs").write_text(f"{damaged}\n")
        with pytest.raises(InvalidValueError, match="runs, line 1"), RunLog(tmp_path / "runs", 1, "quick"):
            pass


def test_runs_taken_together_keep_their_batches(tmp_path: Path) -> None:
    whole = conduct(Joint(), "quick", tmp_path / "whole", 1, silent)
    conduct(Joint(), "quick", tmp_path / "torn", 1, silent)
    lines = (tmp_path / "torn" / LEDGER).read_bytes().splitlines(keepends=True)
    (tmp_path / "torn" / LEDGER).write_bytes(b"".join(lines[:34]))
    assert conduct(Joint(), "quick", tmp_path / "torn", 1, silent).estimates == whole.estimates


@pytest.mark.usefixtures("sharing")
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failure_ends_it_with_its_cause_and_keeps_what_is_done(tmp_path: Path, jobs: int) -> None:
    with pytest.raises(ArithmeticError, match="edge"):
        conduct(Failing(), "quick", tmp_path, jobs, silent)
    done = (tmp_path / LEDGER).read_text().splitlines()
    assert all(json.loads(line)["cell"].startswith(("six", "eight")) for line in done)


@pytest.mark.usefixtures("sharing")
def test_an_interruption_keeps_what_is_done(tmp_path: Path) -> None:
    def interrupt(done: int, total: int) -> None:
        if done >= 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        conduct(Dice(), "quick", tmp_path, 2, interrupt)
    assert len((tmp_path / LEDGER).read_text().splitlines()) == 5


BLOCKING = """
import sys
from pathlib import Path
from pollerd.lab.experiments import runner
from tests.lab.toy_experiments import Blocking
runner.ALONE_SECONDS = 0.0
runner.conduct(Blocking(sys.argv[1]), "quick", Path(sys.argv[1]), 2, lambda done, total: None)
"""


def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    parent = subprocess.Popen([sys.executable, "-c", BLOCKING, str(tmp_path)])
    try:
        wait_until(lambda: len(list(tmp_path.glob("*.pid"))) == 2)
    finally:
        parent.kill()
        parent.wait()
    workers = [Path("/proc") / path.stem for path in tmp_path.glob("*.pid")]
    assert len(workers) == 2
    wait_until(lambda: not any(map(is_running, workers)))


def is_running(process: Path) -> bool:
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until(holds: Callable[[], bool]) -> None:
    ends = time.monotonic() + 60.0
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.02)


def test_mean_variance_and_their_errors() -> None:
    values = np.array([1.0, 2.0, 4.0, math.nan])
    mean = estimate(values, "mean")
    assert mean.value == pytest.approx(7 / 3)
    assert mean.error == pytest.approx(math.sqrt(7 / 9))
    assert mean.runs == 3
    variance = estimate(values, "variance")
    assert variance.value == pytest.approx(7 / 3)
    away = values[:3] - 7 / 3
    assert variance.error == pytest.approx(math.sqrt(((away**4).mean() - (away**2).mean() ** 2) / 3))
    assert math.isnan(estimate(values[:1], "mean").error)
    assert estimate(values[3:], "mean").runs == 0


def test_the_error_of_a_variance_is_the_spread_of_variances() -> None:
    """Of 400 samples of 100 exponential values; the ratio of the two has a standard deviation below .05."""
    draws = np.random.default_rng(np.random.SeedSequence()).exponential(size=(400, 100))
    told = np.mean([estimate(row, "variance").error ** 2 for row in draws]) ** 0.5
    assert told == pytest.approx(draws.var(axis=1, ddof=1).std(), rel=0.4)


@pytest.mark.parametrize(
    ("printed", "value", "error", "runs", "agrees"),
    [
        ("812.4", 812.44, 0.0, 30, True),
        ("812.4", 812.46, 0.0, 30, False),
        ("812.4", 812.46, math.nan, 1, True),
        ("812.4", 813.4, 0.51, 10_000, True),
        ("812.4", 813.5, 0.51, 10_000, False),
        ("812.4", 813.9, 0.51, 4, True),
        ("8e2", 840.0, 0.0, 30, True),
        ("8e2", 860.0, 0.0, 30, False),
        ("-3", -2.6, 0.0, 30, True),
    ],
)
def test_verdicts(printed: str, value: float, error: float, runs: int, agrees: bool) -> None:
    if math.isnan(error):
        value = 812.44
    assert agree(PublishedValue("r", "c", printed), Estimate(value, error, runs)) == agrees


def test_an_error_of_the_printed_number_counts() -> None:
    ours = Estimate(813.5, 0.3, 10_000)
    assert not agree(PublishedValue("r", "c", "812.4"), ours)
    assert agree(PublishedValue("r", "c", "812.4", error=0.5), ours)


def test_a_report_has_all_side_by_side(tmp_path: Path) -> None:
    verdicts = reproduce(Dice(), "quick", tmp_path, jobs=1, draw=True, report_progress=silent)
    assert verdicts["differs"] == 1
    assert verdicts["differs, unexplained"] == 1
    assert verdicts["not run"] == 1
    text = (tmp_path / "dice" / "report.md").read_text()
    assert "| eight | mean | 5.5 |" in text
    assert "| differs | eight faces have a mean of 4.5 |" in text
    assert "**differs, unexplained**" in text
    assert "35 / 12" in text
    assert "| more faces, more pips | yes |" in text
    assert "\\|" in text, "bars within cells are escaped"
    assert "![lines](lines.svg)" in text
    with (tmp_path / "dice" / "printed.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["printed"] for row in rows] == ["3.5", "2.9", "5.5", "9.0", "5.5"]
    assert (tmp_path / "dice" / "table.csv").read_text().startswith("row,column,value")
    assert (tmp_path / "dice" / "lines.png").read_bytes().startswith(b"\x89PNG")
    before = (tmp_path / "dice" / "lines.svg").read_bytes()
    reproduce(Dice(), "quick", tmp_path, jobs=1, draw=True, report_progress=silent)
    assert (tmp_path / "dice" / "lines.svg").read_bytes() == before, "the same numbers give the same file"


def test_the_page_of_all_keeps_what_earlier_calls_made(tmp_path: Path) -> None:
    reproduce(Joint(), "full", tmp_path, jobs=1, draw=False, report_progress=silent)
    reproduce(Dice(), "quick", tmp_path, jobs=1, draw=False, report_progress=silent)
    (tmp_path / "older").mkdir()
    (tmp_path / "older" / "report.md").write_text("# older: of a time without entries\n")
    *_, dice, joint, older = write_summary(tmp_path).read_text().splitlines()
    assert dice.startswith("| [dice](dice/report.md) | throws of a die | everybody knows | quick | 2 agree, 1 claim")
    assert joint.startswith("| [joint](joint/report.md) | throws of a die | everybody knows | full | ")
    assert older == "| [older](older/report.md) |  |  |  | see its report |"
    (tmp_path / "dice" / ENTRY).write_text("[]")
    with pytest.raises(InvalidValueError, match=f"dice/{ENTRY}"):
        write_summary(tmp_path)


def test_a_batch_is_done_whole_however_few_of_its_runs_are_asked_for(tmp_path: Path) -> None:
    fresh = conduct(Joint(), "quick", tmp_path / "fresh", 1, silent, most_runs=4).estimates
    conduct(Joint(), "quick", tmp_path / "kept", 1, silent, most_runs=18)
    assert conduct(Joint(), "quick", tmp_path / "kept", 1, silent, most_runs=4).estimates == fresh
    assert {estimate.runs for estimate in fresh.values()} == {4}
    told: list[tuple[int, int]] = []
    conduct(Joint(), "quick", tmp_path / "kept", 1, lambda done, total: told.append((done, total)), most_runs=20)
    assert told == [(60, 60)]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "taken" / "dice" / LEDGER).mkdir(parents=True)
    (tmp_path / "half" / "dice" / "report.md").mkdir(parents=True)
    for out, named in (("file", "file/dice"), ("taken", LEDGER), ("half", "report.md")):
        with pytest.raises(InvalidValueError, match=f"{named}: must be a place that can be read and written"):
            reproduce(Dice(), "quick", tmp_path / out, jobs=1, draw=False, report_progress=silent)


def test_a_number_not_run_is_said_so() -> None:
    compared = compare(Dice(), Results(Dice(), "quick", {}))
    assert {each.verdict for each in compared} == {"not run"}


def test_without_matplotlib_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigError, match="make reproduce"):
        require_matplotlib()


def test_stretches() -> None:
    assert edges_up_to(5000) == [1000, 2000, 5000]
    assert edges_up_to(700) == [700]
    assert stretch_names([1000, 2500]) == ["0-1k", "1k-2500"]


@pytest.mark.parametrize("name", list(experiments()))
def test_every_experiment_is_whole(name: str) -> None:
    """Sweeps without doubles, printed numbers that are numbers, reasons for places that are printed."""
    found = experiment(name)
    assert found.name == name
    assert found.title
    assert found.source
    for size in SIZES:
        keys = [each.key for each in found.cells(size)]
        assert keys
        assert len(set(keys)) == len(keys)
        assert found.runs[size] >= 1
    assert pickle.loads(pickle.dumps(found.with_entropy(7))).entropy == 7, "as it is sent to other processes"
    assert found.entropy == 0
    places = [(printed.row, printed.column) for printed in found.printed()]
    assert len(set(places)) == len(places)
    assert all(math.isfinite(printed.number) and printed.precision > 0 for printed in found.printed())
    assert set(found.reasons()) <= set(places)


def test_an_unknown_experiment_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="reproduce --list"):
        experiment("htraa-fig-99")
