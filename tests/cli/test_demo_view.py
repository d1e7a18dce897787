"""The demo's terminal view: what is shown when not everything fits."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest
from rich.console import Console

from pollerd.app.demo_web import DemoSite, SiteKind, draw_sites
from pollerd.cli.demo.score import Score
from pollerd.cli.demo.view import Sample, SampleRow, live_view, pick, plain_line, print_final, track
from pollerd.daemon.views import Status


def row(site: DemoSite, learned: float | None = 2.0) -> SampleRow:
    return SampleRow(site, "active", 123, 45, 67, learned, 1.0, 2204.7)


def reading(rows: tuple[SampleRow, ...]) -> Sample:
    status = Status(len(rows), 3, 4321, 1234, 7.8, 8.0, False, None)
    return Sample(45.0, status, rows, Score(300, 200, 250, np.array([1.0, 2.0, 4.0]), 0.345, 0.251, 2.5, 3.1))


@pytest.fixture
def rows() -> tuple[SampleRow, ...]:
    return tuple(row(site) for site in draw_sites(36, 8000, np.random.default_rng(0)))


@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 30), (120, 40), (200, 60)])
def test_the_live_view_fits_the_terminal_with_every_number_whole(
    rows: tuple[SampleRow, ...], width: int, height: int
) -> None:
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None)
    with console.capture() as captured:
        console.print(live_view(reading(rows), 60.0, console, "http://127.0.0.1:1/"))
    lines = captured.get().splitlines()
    assert len(lines) < height
    assert max(map(len, lines)) <= width
    table = [line for line in lines if " of 67" in line]
    assert len(table) >= min(len(rows) - 1, height - 14)
    assert all(line.count("…") <= 1 and " 123 " in line for line in table)
    assert any("4321  7.8 of 8/s" in line and "34 %  even 25 %" in line for line in lines)


def test_sites_with_a_peculiarity_are_kept_where_room_is_short(rows: tuple[SampleRow, ...]) -> None:
    shown = pick(rows, 12)
    assert len(shown) == 12
    assert {one.site.kind for one in shown if not one.site.kind.ordinary} == {k for k in SiteKind if not k.ordinary}
    rates = [one.true for one in shown]
    assert rates == sorted(rates, reverse=True)
    assert sorted(pick(rows, 36), key=id) == sorted(rows, key=id)
    assert len(pick(rows, 5)) == 5


@pytest.mark.parametrize(("true", "learned", "marks"), [(2.0, 2.0, "◈"), (0.02, 30.0, "◆●"), (30.0, 1e-9, "●◆")])
def test_the_track_shows_true_and_learned_in_order(true: float, learned: float, marks: str) -> None:
    site = DemoSite("http://127.1.0.2:1/", "127.1.0.2", "/", SiteKind.PLAIN, true / 60)
    text = track(SampleRow(site, "active", 9, 1, 1, learned, learned, learned), 26).plain
    assert len(text) == 26
    assert "".join(sign for sign in text if sign in "◆●◈") == marks


def test_nothing_is_shown_as_learned_before_the_second_poll() -> None:
    site = DemoSite("http://127.1.0.2:1/", "127.1.0.2", "/", SiteKind.PLAIN, 1.0)
    assert set(track(SampleRow(site, "active", 1, 0, 0, 5.0, 1.0, 9.0), 26).plain) == {"·"}


def test_the_summary_says_what_the_score_says(rows: tuple[SampleRow, ...]) -> None:
    console = Console(file=io.StringIO(), width=120, record=True)
    print_final(reading(rows), console)
    text = " ".join(console.export_text().split())
    assert "4321 in 45 s, of 36 sites, budget 8/s" in text
    assert "300 truly happened; 200 polls found one; with those came 50 earlier ones of the same page; 50 not" in text
    assert "2.5 s from a change to the poll that found it (mean; median 2.0 s)" in text
    assert "equal timers with as many polls: 3.1 s" in text
    assert "34 % of the repeated polls found something; as many polls spread evenly: 25 % expected" in text


def test_before_the_first_change_there_is_no_delay_and_no_share() -> None:
    empty = Sample(0.5, Status(0, 0, 0, 0, 0.0, 8.0, False, None), (), Score(0, 0, 0, np.empty(0), math.nan, math.nan))
    assert "median delay –" in plain_line(empty)
    assert "– (uniform –)" in plain_line(empty)
