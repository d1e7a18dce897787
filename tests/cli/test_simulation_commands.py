"""`pollerd simulate` and `pollerd reproduce` as commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from pollerd.cli.commands import app
from pollerd.errors import InvalidValueError
from tests.support.process import command


def called(*arguments: str) -> Result:
    """The command, in this process: starting one takes longer than most of these."""
    return CliRunner().invoke(app, arguments)


SMALL = ("--pages", "16", "--steps", "300", "--runs", "2", "--jobs", "1")


def test_simulate_tells_shares_of_all_allocators() -> None:
    ended = called(
        "simulate",
        "web",
        *SMALL,
        "--allocator",
        "uniform",
        "--allocator",
        "lakg",
        "--json",
        "--set",
        "resolution=50",
        "--alpha",
        "0.5",
        "--order",
        "sorted",
    )
    assert ended.exit_code == 0, ended.output
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [line["allocator"] for line in lines] == ["uniform", "lakg"]
    for line in lines:
        assert line["polls"] == ["0-300"]
        assert line["runs"] == 2
        assert 0.2 < line["share"][0] < 1.1
        assert line["standard_error"][0] >= 0
    again = called("simulate", "web", *SMALL, "--allocator", "uniform", "--alpha", "0.5", "--order", "sorted")
    assert f"| uniform | {lines[0]['share'][0]:.4g} ±" in again.stdout


def test_simulate_by_interest() -> None:
    ended = called(
        "simulate",
        "web",
        *SMALL,
        "--allocator",
        "optimal",
        "--objective",
        "interest",
        "--half-lives",
        "60",
        "600",
        "--json",
    )
    assert ended.exit_code == 0, ended.output
    assert json.loads(ended.stdout)["share"][0] == pytest.approx(1.0, abs=0.2)


@pytest.mark.parametrize("goal", [("delay",), ("deadline", "--deadline", "30")])
def test_simulate_how_soon_changes_are_found(goal: tuple[str, ...]) -> None:
    ended = called("simulate", "web", *SMALL, "--allocator", "optimal", "--objective", *goal, "--json")
    assert ended.exit_code == 0, ended.output
    assert json.loads(ended.stdout)["share"][0] == pytest.approx(1.0, abs=0.3)
    wrong = called("simulate", "web", *SMALL, "--objective", "changes", "--deadline", "30")
    assert "needs --objective deadline" in str(wrong.exception)


def test_simulate_the_knapsack() -> None:
    ended = called("simulate", "knapsack", *SMALL, "--json")
    assert ended.exit_code == 0, ended.output
    assert json.loads(ended.stdout)["allocator"] == "htraa", "whittle, the default elsewhere, holds no mix"
    both = called("simulate", "knapsack", *SMALL, "--allocator", "uniform", "--allocator", "optimal", "--json")
    shares = [json.loads(line)["share"][0] for line in both.stdout.splitlines()]
    assert 0 < shares[0] < shares[1] == pytest.approx(1.0)


def test_a_share_of_nothing_is_null(tmp_path: Path) -> None:
    path = tmp_path / "history.csv"
    path.write_text("a,0\nb,0\na,1000000\n")
    ended = called("simulate", "history", str(path), "--steps", "3000", "--runs", "1", "--jobs", "1", "--json")
    assert "NaN" not in ended.stdout
    assert json.loads(ended.stdout)["share"][:2] == [None, None]


def test_simulate_a_history(tmp_path: Path) -> None:
    path = tmp_path / "history.csv"
    path.write_text("page,time\n" + "".join(f"a,{t}\nb,{t * t}\n" for t in range(1, 60)))
    ended = called("simulate", "history", str(path), "--steps", "200", "--runs", "1", "--jobs", "1", "--json")
    assert ended.exit_code == 0, ended.output
    assert json.loads(ended.stdout)["standard_error"] == [None]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("web", "--allocator", "best"), "allocator"),
        (("web", "--set", "depth=3"), "set"),
        (("web", "--set", "depth"), "NAME=VALUE"),
        (("web", "--order", "up"), "order"),
        (("web", "--objective", "beauty"), "objective"),
        (("knapsack", "--objective", "interest"), "objective"),
        (("web", "--objective", "interest", "--noise", "0.1"), "noise"),
        (("history",), "file"),
        (("web", "--alpha", "1.5"), "alpha"),
        (("web", "--noise", "0.7"), "noise"),
        (("web", "--noise", "-1"), "below 0.5"),
        (("knapsack", "--noise", "nan"), "noise"),
        (("knapsack", "--switch-every", "9"), "--switch-every: cannot be used with knapsack"),
        (("knapsack", "--allocator", "whittle"), "holds a mix"),
        (("web", "--half-lives", "1", "2"), "--half-lives: needs --objective interest"),
        (("web", "--objective", "interest", "--half-lives", "60", "inf"), "half_lives"),
        (("web", "--allocator", "optimal", "--set", "rates=3"), "rates: must be left out where the true rates"),
        (("web", "--allocator", "htraa", "--set", "resolution=1"), "resolution"),
        (("web", "--allocator", "lakg", "--set", "resolution=5", "--set", "resolution=6"), "given once"),
        (("history", "missing.csv"), "--pages: cannot be used with history"),
    ],
)
def test_simulate_names_what_cannot_be(arguments: tuple[str, ...], said: str) -> None:
    ended = called("simulate", *arguments, *SMALL)
    assert isinstance(ended.exception, InvalidValueError)
    assert said in str(ended.exception)


def test_reproduce(tmp_path: Path) -> None:
    ended = called("reproduce", "htraa-updates", "--quick", "--out", str(tmp_path), "--jobs", "1")
    assert ended.exit_code == 0, ended.output
    assert "htraa-updates: 5 agree " in ended.stdout
    report = (tmp_path / "htraa-updates" / "report.md").read_text()
    assert "| α = 0.3, β = 1.5 | Σp | 0.76 | 0.7572 |" in report
    assert "htraa-updates" in (tmp_path / "README.md").read_text()
    for arguments in (("reproduce",), ("reproduce", "htraa-updates", "--all"), ("reproduce", "htraa-fig-99")):
        ended = called(*arguments, "--out", str(tmp_path))
        assert isinstance(ended.exception, InvalidValueError)
        assert "--list" in str(ended.exception)


def test_reproduce_with_other_seeds(tmp_path: Path) -> None:
    def done(*more: str) -> tuple[int, str]:
        to = ("--runs", "2", "--no-figures", "--out", str(tmp_path), "--jobs", "1", "--json")
        ended = called("reproduce", "htraa-theorem-2", *to, *more)
        assert ended.exit_code == 0, ended.output
        table = (tmp_path / "htraa-theorem-2" / "table.csv").read_text()
        return json.loads(ended.stdout)["entropy"], table

    printed, seven = done(), done("--entropy", "7")
    assert (printed[0], seven[0]) == (0, 7)
    assert printed[1] != seven[1]
    assert done() == done("--entropy", "0") == printed
    wrong = called("reproduce", "htraa-theorem-2", "--entropy", "-1", "--out", str(tmp_path))
    assert wrong.exit_code == 2
    assert "--entropy" in wrong.output


def test_reproduce_twice_is_on_one_page(tmp_path: Path) -> None:
    quickly = ("--no-figures", "--out", str(tmp_path), "--jobs", "1")
    assert called("reproduce", "htraa-updates", "htraa-updates", *quickly).stdout.count("htraa-updates: ") == 1
    assert called("reproduce", "ephemeral-fig-1", *quickly).exit_code == 0
    page = (tmp_path / "README.md").read_text()
    assert page.count("(htraa-updates/report.md)") == page.count("(ephemeral-fig-1/report.md)") == 1


def test_reproduce_in_json(tmp_path: Path) -> None:
    listed = json.loads(called("reproduce", "--list", "--json").stdout)
    assert {each.keys() >= {"name", "title", "source"} for each in listed} == {True}
    assert "htraa-fig-5" in {each["name"] for each in listed}
    done = called("reproduce", "htraa-updates", "--no-figures", "--out", str(tmp_path), "--jobs", "1", "--json")
    (only,) = json.loads(done.stdout)["experiments"]
    assert (only["name"], only["report"]) == ("htraa-updates", str(tmp_path / "htraa-updates" / "report.md"))
    assert only["verdicts"]["agrees"] == 5
    assert json.loads(done.stdout)["summary"] == str(tmp_path / "README.md")


def test_reproduce_names_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "htraa-updates" / "runs.jsonl").mkdir(parents=True)
    for out, named in ((tmp_path / "file", "file"), (tmp_path, "runs.jsonl")):
        ended = called("reproduce", "htraa-updates", "--no-figures", "--out", str(out), "--jobs", "1")
        assert isinstance(ended.exception, InvalidValueError)
        assert named in str(ended.exception)


async def test_as_a_process_it_says_one_line_where_something_is_wrong() -> None:
    listed = await command("reproduce", "--list")
    assert listed.out.startswith("name\ttitle\tsource\n")
    assert "\nhtraa-fig-5\t" in listed.out
    ended = await command("simulate", "web", "--allocator", "best")
    assert ended.code == 2
    assert ended.err.startswith("pollerd: --allocator: ")
    assert ended.err.count("\n") == 1
