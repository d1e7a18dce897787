"""The plots: what they draw is what they were given, and their size is bounded."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from pollerd.storage.values import StripColumns
from pollerd.web.collection import host_graph_plot
from pollerd.web.plots import (
    DecilePoint,
    PageBelief,
    belief_plot,
    benefit_plot,
    calibration_plot,
    poll_strip,
    sentence,
    wilson,
)

DAY = 86_400.0
CURVE = [(float(budget), float(10 * np.log1p(budget))) for budget in np.geomspace(0.6, 60.0, 41)]


def parsed(svg: str) -> ElementTree.Element:
    """The drawing; nothing in it may style or run anything."""
    assert not re.search(r"style=|<script|<style|foreignObject|href|on\w+=", svg)
    return ElementTree.fromstring(svg)  # our own text


def random_polls(seed: int, number: int) -> StripColumns:
    rng = np.random.default_rng(seed)
    at = rng.uniform(0.0, 90 * DAY, number)
    changed = rng.uniform(size=number) < 0.5
    return StripColumns(at, changed, ~changed & (rng.uniform(size=number) < 0.6))


@pytest.mark.parametrize("seed", range(10))
def test_the_lanes_of_the_strip_add_up_to_the_polls(seed: int) -> None:
    polls = random_polls(seed, 10_000)
    strip = poll_strip(polls, 0.0, 90 * DAY, 91 * DAY)
    parsed(strip.svg)
    _, every, found, failed = (sum(column) for column in zip(*strip.rows, strict=True))
    assert (every, found, failed) == (10_000, int(polls.changed.sum()), int(polls.failed.sum()))
    assert len(strip.svg) <= 20_000


def test_the_expected_poll_lies_within_the_axis() -> None:
    strip = poll_strip(random_polls(1, 30), 0.0, DAY, 10 * DAY)
    expected = re.search(r'class="expected" d="M(\d+) ', strip.svg)
    assert expected is not None
    assert 0 <= int(expected[1]) <= 720


def test_a_strip_of_few_polls_is_small() -> None:
    assert len(poll_strip(random_polls(2, 30), 0.0, 90 * DAY).svg) < 2_500


def test_a_strip_without_polls() -> None:
    strip = poll_strip(StripColumns(np.empty(0), np.empty(0, bool), np.empty(0, bool)), 0.0, DAY)
    assert list(strip.rows) == []
    assert "0 polls, 0 found a change, 0 failed." in strip.svg


def test_the_slider_says_what_the_curve_has() -> None:
    plot = benefit_plot(CURVE, 6.0, 15.0, 9.0)
    assert plot is not None
    parsed(plot.svg)
    assert [(row.budget, row.found) for row in plot.rows] == CURVE
    assert plot.rows[plot.step].budget == pytest.approx(6.0)
    assert plot.sentence == "With 6 checks per second, as now, about 19 changes per hour at best."
    assert (
        plot.rows[0].sentence == "With 36 checks per minute, about 24 % of the changes that 360 checks per minute find."
    )
    assert (
        plot.rows[-1].sentence == "With 60 checks per second, about 111 % more changes than 6 checks per second find."
    )
    chosen = benefit_plot(CURVE, 6.0, 15.0, 9.0, step=40)
    assert chosen is not None
    assert chosen.budget == pytest.approx(60.0)


@pytest.mark.parametrize("curve", [[], [(1.0, 2.0)], [(0.0, 0.0), (1.0, 0.0), (2.0, 0.0)]])
def test_nothing_is_drawn_of_nothing(curve: list[tuple[float, float]]) -> None:
    assert benefit_plot(curve, 1.0, 0.0, None) is None


def test_a_belief() -> None:
    svg = belief_plot(PageBelief(6.0, 4.0, 9.0, 13.0, known=True))
    parsed(svg)
    assert (
        "Changes (estimate): 6 times a day, 90 % confidence: between 4 times a day and 9 times a day; checked 13 times"
        in svg
    )
    assert len(svg) < 2_500
    assert 'class="interval prior"' in belief_plot(PageBelief(6.0, 4.0, 9.0, None, known=False))
    assert "interval" not in belief_plot(PageBelief(6.0, None, None, None, known=True)).replace("90 % interval", "")


@pytest.mark.parametrize("rate", [1e-12, 1e12])
def test_a_belief_beyond_the_axis(rate: float) -> None:
    drawing = parsed(belief_plot(PageBelief(rate, rate / 2, rate * 2, rate, known=True)))
    circle = next(one for one in drawing.iter() if one.tag.endswith("circle"))
    assert 0 <= int(circle.attrib["cx"]) <= 720


def test_calibration() -> None:
    points = [DecilePoint(200, 0.3, 0.28), DecilePoint(10, 0.75, 1.0)]
    drawing = parsed(calibration_plot(points))
    assert sum(one.tag.endswith("circle") for one in drawing.iter()) == 2
    assert sentence(points) == "When it said 30 %, it was 28 % (of 200 polls)."
    assert sentence([]) == ""


@pytest.mark.parametrize("count", [0, 1, 2, 60])
def test_a_graph_of_hosts_stays_within_its_frame(count: int) -> None:
    names = [f"<b>{n}</b>.example.org:443" for n in range(count)]
    links = [(n, (n * 7 + 1) % count, n % 4) for n in range(count) if n != (n * 7 + 1) % count]
    drawing = parsed(host_graph_plot(names, [count - n for n in range(count)], links))
    circles = [one for one in drawing.iter() if one.tag.endswith("circle")]
    assert len(circles) == count
    assert all(0 <= int(one.attrib["cx"]) <= 720 and 0 <= int(one.attrib["cy"]) <= 420 for one in circles)
    assert len({(one.attrib["cx"], one.attrib["cy"]) for one in circles}) == count


@pytest.mark.parametrize(("found", "polls"), [(0.28, 200), (0.0, 10), (1.0, 3), (0.5, 1)])
def test_the_score_interval(found: float, polls: int) -> None:
    """Its ends are the shares of which the found one is 1.645 standard deviations away: the score test, inverted."""
    for end in wilson(found, polls):
        if 0.0 < end < 1.0:
            assert abs(found - end) == pytest.approx(1.6448536 * np.sqrt(end * (1 - end) / polls))
