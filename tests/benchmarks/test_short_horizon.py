"""Pages and policies in virtual time."""

from __future__ import annotations

import numpy as np
from peer_runs.contents import Page
from short_horizon import Believing, History, run

HOME = Page("text/plain", [b"a", b"b", b"b"], [-5.0, 4.0, 7.0], 10.0)


def history(end: float = 30.0, settle: float = 0.0) -> History:
    return History(HOME, lambda version: int(version % 3 > 0), end, settle)


def test_a_history_repeats_and_names_only_changes_of_state() -> None:
    found = history()
    assert found.times[1:] == [4.0, 10.0, 14.0, 20.0, 24.0, 30.0]
    assert [found.at(now) for now in (0.0, 3.9, 4.0, 9.9, 10.0, 14.5)] == [0, 0, 1, 1, 0, 1]
    assert found.counted == found.times[1:]
    assert history(30.0, 5.0).counted == [10.0, 14.0, 20.0, 24.0]


def test_a_report_stands_for_the_changes_since_the_first_poll() -> None:
    policy = Believing(np.array([0.2]), "changes", own=True)
    assert run(policy, [history()], 30.0, 30) == (6, 6)
    assert run(policy, [history()], 30.0, 3) == (0, 0), "the page is back at its beginning at every poll"


def test_who_knows_the_rates_polls_the_faster_page_more_often() -> None:
    never = History(Page("text/plain", [b"a"], [0.0], 10.0), lambda _: 0, 100.0, 0.0)
    polled = []

    class Noting(Believing):
        def told(self, page: int, gap: float, changed: bool, now: float) -> None:
            polled.append(page)
            super().told(page, gap, changed, now)

    for own in (True, False):
        polled.clear()
        run(Noting(np.array([0.2, 1e-4]), "changes", own=own), [history(100.0), never], 100.0, 100)
        assert polled.count(0) > 2 * polled.count(1)
