"""Plots as SVG and as bars: marks, gaps, texts that are only texts."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pollerd.plots import PlotLabels, PlotPoint, line_plot, number_ticks, sparkline, time_ticks

NOON, DAY = 1_767_268_800.0, 86_400.0
PRICE = PlotLabels("price - https://example.org/", "EUR")
HOSTILE = "</title><script>alert(1)</script>\x1b\x00\ud800&<a href='https://evil.example/'>"
SVG = "{http://www.w3.org/2000/svg}"


def drawn(points: list[PlotPoint], labels: PlotLabels = PRICE, until: float = NOON + 10 * DAY) -> ElementTree.Element:
    return ElementTree.fromstring(line_plot(points, labels, until))


def texts(root: ElementTree.Element) -> list[str]:
    return [one.text or "" for one in root.iter(f"{SVG}text")]


def path(root: ElementTree.Element) -> str:
    (found,) = root.iter(f"{SVG}path")
    return found.attrib["d"]


def test_a_value_is_a_step_until_the_next() -> None:
    root = drawn([PlotPoint(NOON, 10.0), PlotPoint(NOON + 5 * DAY, 9.5), PlotPoint(NOON + 8 * DAY, 8.0)])
    assert re.fullmatch(r"M90\.0 [\d.]+H395\.0L395\.0 [\d.]+H578\.0L578\.0 [\d.]+H700\.0", path(root))
    assert texts(root)[0] == "price - https://example.org/ (EUR)"
    assert {"8.0", "9.0", "10.0"} <= set(texts(root))
    assert "2026-01-05" in texts(root)
    assert root.attrib["role"] == "img"
    title, described = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert title is not None
    assert described is not None
    assert root.attrib["aria-labelledby"] == f"{title.attrib['id']} {described.attrib['id']}"
    assert described.text == (
        "10 EUR at 2026-01-01 12:00 UTC, 8 EUR since 2026-01-09 12:00 UTC; lowest 8 EUR, highest 10 EUR, 3 values."
    )


def test_a_gap_is_where_it_could_not_be_read() -> None:
    values = [1.0, None, 2.0, math.nan]
    root = drawn([PlotPoint(NOON + n * DAY, value) for n, value in enumerate(values)])
    assert path(root).count("M") == 2
    assert "L" not in path(root)
    assert list(root.iter(f"{SVG}circle")) == [], "it cannot be read now"
    nothing = drawn([PlotPoint(NOON, None)])
    assert "no value could be read" in texts(nothing)
    assert "no value could be read" in texts(drawn([]))


def test_what_it_says_is_text_and_nothing_else() -> None:
    labels = PlotLabels(HOSTILE, HOSTILE, key="a b'><script>")
    svg = line_plot([PlotPoint(NOON, 1.0)], labels, NOON)
    root = ElementTree.fromstring(svg)
    names = {one.tag.removeprefix(SVG) for one in root.iter()}
    assert names == {"svg", "title", "desc", "style", "rect", "text", "line", "path", "circle"}
    attributes = {name for one in root.iter() for name in one.attrib}
    assert not {name for name in attributes if name.startswith("on") or "href" in name or name == "style"}
    assert svg.count("http") == 1 + svg.count("https://evil.example/")
    assert "url(" not in svg
    assert "@import" not in svg
    assert "prefers-color-scheme:dark" in svg
    assert root.attrib["aria-labelledby"] == "abscript-title abscript-desc"


def test_dates_have_dates_at_their_axis() -> None:
    points = [PlotPoint(NOON + n * DAY, NOON + 100 * DAY + n * DAY) for n in range(5)]
    root = drawn(points, PlotLabels("due", dates=True))
    assert "2026-04-12" in texts(root)
    described = root.find(f"{SVG}desc")
    assert described is not None
    assert "highest 2026-04-15 12:00" in (described.text or "")


@given(
    values=st.lists(st.one_of(st.none(), st.floats()), max_size=20),
    gaps=st.lists(st.floats(0, 1e9), min_size=20, max_size=20),
    title=st.text(max_size=50),
    dates=st.booleans(),
)
def test_any_values_are_well_formed_and_inside(
    values: list[float | None], gaps: list[float], title: str, dates: bool
) -> None:
    at, points = NOON, []
    for value, gap in zip(values, gaps, strict=False):
        points.append(PlotPoint(at, value))
        at += gap
    root = drawn(points, PlotLabels(title, dates=dates), at)
    for one in root.iter(f"{SVG}circle"):
        assert 0 <= float(one.attrib["cx"]) <= 720
        assert 0 <= float(one.attrib["cy"]) <= 280
    for one in root.iter(f"{SVG}path"):
        assert all(-1 <= float(number) <= 721 for number in re.findall(r"-?[\d.]+", one.attrib["d"]))


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [
        (7.7, 10.3, ["8.0", "8.5", "9.0", "9.5", "10.0"]),
        (0.0, 1_234_567.0, ["0", "500,000", "1,000,000"]),
        (-0.012, 0.012, ["-0.010", "-0.005", "0.000", "0.005", "0.010"]),
        (99.995, 100.005, ["99.996", "99.998", "100.000", "100.002", "100.004"]),
    ],
)
def test_numbers_have_round_marks(low: float, high: float, wanted: list[str]) -> None:
    assert [tick.text for tick in number_ticks(low, high, 6)] == wanted


@pytest.mark.parametrize(
    ("seconds", "first"),
    [(600.0, "12:00"), (7_200.0, "12:00"), (2 * DAY, "01-01 12:00"), (30 * DAY, "2026-01-08"), (4_000 * DAY, "2027-")],
)
def test_times_have_round_marks(seconds: float, first: str) -> None:
    marks = time_ticks(NOON, NOON + seconds, 7)
    assert 2 <= len(marks) <= 7
    assert marks[0].text.startswith(first)


def test_bars() -> None:
    assert sparkline([1.0, 2.0, None, 3.0]) == "▁▅ █"
    assert sparkline([5.0, 5.0]) == "▅▅"
    assert sparkline([None, math.nan]) == "  "
    assert sparkline([]) == ""
    assert sparkline([float(n) for n in range(100)], 8) == "▁▂▃▄▅▆▇█"
    assert sparkline([1e308, -1e299, 0.0, 1e299]) == " ▁▅█"
