"""Reading what the programs say, and judging it by what happened; needs none of the programs."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import yaml
from doc_tables.pages import tables_of_numbers
from hypothesis import given
from hypothesis import strategies as st
from peer_runs import contents
from peer_runs.changedetection_run import reports_of, watch_of
from peer_runs.contents import States
from peer_runs.judge import Score, judged, quantile
from peer_runs.missed import BACK, FIRST, NOT_ASKED, ORDER, SEEN, causes
from peer_runs.pollerd_run import reports_in
from peer_runs.processes import process_line, tree_cpu_seconds
from peer_runs.replay import read_log, read_truth
from peer_runs.reports import Page, PageChange, Report, Request, Run, Window
from peer_runs.tables import BEGIN, END, Result, section, table, written_into
from peer_runs.urlwatch_run import jobs, summary
from peer_runs.verdicts import Poll, Verdicts

WINDOW = Window(began=1000.0, seconds=100.0, settle=10.0)
PAGES = [
    Page("home", "http://127.2.0.1:80/p/home", "text/html"),
    Page("news", "http://127.2.0.2:80/p/news", "application/rss+xml"),
    Page("notes", "http://127.2.0.3:80/p/notes", "text/markdown"),
]
REPORT = """===========================================================================
01. NEW: notes
02. CHANGED: home
03. ERROR: news
===========================================================================

---------------------------------------------------------------------------
CHANGED: home ( http://127.2.0.1:80/p/home )
---------------------------------------------------------------------------
+04. CHANGED: notes
---------------------------------------------------------------------------

--
urlwatch 2.29, Copyright 2008-2024
"""


def polls(*versions: tuple[float, int]) -> list[Request]:
    return [Request("home", at, version) for at, version in versions]


def test_urlwatch_is_read_by_its_summary_alone() -> None:
    assert list(summary(REPORT)) == [("NEW", "notes"), ("CHANGED", "home"), ("ERROR", "news")]
    assert list(summary("")) == []


def test_jobs_of_urlwatch_have_the_filters_of_their_medium() -> None:
    plain = list(yaml.safe_load_all(jobs(PAGES, ruled=False)))
    assert [job["name"] for job in plain] == ["home", "news", "notes"]
    assert plain[0]["filter"] == ["html2text"]
    assert "filter" not in plain[2]
    ruled = list(yaml.safe_load_all(jobs(PAGES, ruled=True)))
    assert ruled[0]["filter"] == ["html2text", {"grepi": "Page served at"}]
    assert ruled[1:] == plain[1:]


def test_watches_have_an_interval_and_the_rule_where_it_belongs() -> None:
    watches = [watch_of(page, 7, ruled=True) for page in PAGES]
    assert {json.dumps(watch["time_between_check"]) for watch in watches} == {'{"seconds": 7}'}
    assert ["ignore_text" in watch for watch in watches] == [True, False, False]
    assert ["include_filters" in watch for watch in watches] == [False, True, False]


def test_a_history_of_changedetection_reports_all_but_its_first_snapshot() -> None:
    written = {"a": 1000.4, "b": 1020.9, "c": 1000.4}
    history = {"1040": "c", "1000": "a", "1020": "b"}
    assert reports_of("home", history, written.__getitem__) == [
        Report("home", 1020.9, 1020.0),
        Report("home", 1040.5, 1040.0),  # it shares the file of an older snapshot
    ]
    assert reports_of("home", {"1000": "a"}, written.__getitem__) == []


def test_an_event_stream_becomes_reports() -> None:
    change = {"id": 1, "url": PAGES[0].url, "detected_at": "1970-01-01T00:16:40Z"}
    lines = [b"retry: 2000\n", b"id: 0\n", b"\n", b"event: change\n", b"data: " + json.dumps(change).encode(), b"\n"]
    assert list(reports_in(lines, lambda: 1001.0)) == [Report("home", 1001.0, 1000.0)]


def test_the_servers_log_and_truth_are_read() -> None:
    log = [[1.5, 9, "home", "GET", 200, 3, 77], [2.5, 9, "home", "GET", 304, 3, 0], [3, 9, "home", "GET", 404, 0, 0]]
    assert read_log(log) == [Request("home", 1.5, 3), Request("home", 2.5, 3)]
    told = {"pages": {"home": {"changes": [{"seq": 4, "wall": 7.5, "semantic": True}]}}}
    assert read_truth(told) == [PageChange("home", 7.5, 4, True)]


def test_a_report_is_of_what_came_since_the_last_one() -> None:
    changes = [
        PageChange("home", 1020.0, 1, True),
        PageChange("home", 1025.0, 2, False),
        PageChange("home", 1030.0, 3, True),
        PageChange("home", 1050.0, 4, False),
        PageChange("home", 1080.0, 5, True),
    ]
    reports = [Report("home", at) for at in (1041.0, 1061.0, 1071.0)]
    score = judged(polls((1000.0, 0), (1040.0, 3), (1060.0, 4), (1070.0, 4), (1075.0, 4)), changes, reports, WINDOW)
    assert (score.true, score.of_bytes, score.of_nothing, score.false) == (1, 1, 1, 2)
    assert (score.changes, score.found, score.unseen, score.requests) == (3, 2, 1, 5)
    assert sorted(score.delays) == [11.0, 21.0, math.inf]
    assert (score.delay(0.5), score.delay(0.9)) == (21.0, math.inf)


def test_changes_at_the_ends_and_reports_of_later_requests_do_not_count() -> None:
    changes = [PageChange("home", at, version, True) for version, at in enumerate((1010.0, 1050.0, 1095.0), start=1)]
    reports = [Report("home", 1061.0), Report("home", 1102.0)]
    score = judged(polls((1001.0, 0), (1060.0, 2), (1101.0, 3)), changes, reports, WINDOW)
    assert (score.changes, score.delays, score.true, score.requests) == (1, [11.0], 1, 2)


def test_a_program_that_names_its_poll_is_believed() -> None:
    changes = [PageChange("home", 1030.0, 1, True), PageChange("home", 1040.2, 2, True)]
    requests = polls((1000.0, 0), (1040.0, 1), (1040.5, 2))
    assert judged(requests, changes, [Report("home", 1041.0, 1039.9)], WINDOW).found == 1
    assert judged(requests, changes, [Report("home", 1041.0)], WINDOW).found == 2


def test_reports_without_a_request_are_counted_apart() -> None:
    score = judged([], [PageChange("home", 1050.0, 1, True)], [Report("home", 1051.0), Report("x", 1.0, 1.0)], WINDOW)
    assert (score.unplaced, score.true, score.false, score.found, score.unseen) == (2, 0, 0, 0, 1)


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0, 1))
def test_a_quantile_is_a_value_that_enough_values_do_not_exceed(values: list[float], share: float) -> None:
    found = quantile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-9
    assert sum(value < found for value in values) <= max(0.0, share * len(values)) + 1e-9


def test_a_quantile_of_nothing_is_no_number() -> None:
    assert math.isnan(quantile([], 0.5))


def test_a_process_whose_name_holds_a_parenthesis_is_read() -> None:
    line = "12 (a) (b c) S 7 1 1 0 -1 0 0 0 0 0 30 4 5 6 20 0 1"
    assert process_line(line) == (12, 7, 45)


def test_cpu_time_is_that_of_a_whole_tree(tmp_path: Path) -> None:
    tick = os.sysconf("SC_CLK_TCK")
    for number, parent, own, ended in ((2, 1, tick, 0), (3, 2, 2 * tick, tick), (4, 3, tick, 0), (5, 1, 50 * tick, 0)):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "stat").write_text(
            f"{number} (x) S {parent} 1 1 0 -1 0 0 0 0 0 {own} 0 {ended} 0 20 0 1\n"
        )
    assert tree_cpu_seconds(2, tmp_path) == 5.0


def result(setting: str, program: str, delays: list[float]) -> Result:
    score = Score(requests=200, changes=len(delays), delays=delays, true=7, of_nothing=2, false_pages=Counter(home=2))
    return Result(
        setting, Run(program, "1.0", [], 0.0, 3.0, {}), score, {page.id: page.media for page in PAGES}, {BACK: 3}
    )


def test_the_tables_are_tables_of_numbers_with_their_command(tmp_path: Path) -> None:
    results = [result("Plain", "a", [1.0, 2.0]), result("Plain", "b", [1.0, math.inf]), result("Noise", "a", [])]
    page = tmp_path / "peers.md"
    page.write_text(f"# Peers\n{BEGIN}\nold\n{END}\nlast\n")
    for _ in range(2):
        written_into(page, section(results, "How.", "benchmarks/head_to_head.py --traces DIR"))
    assert page.read_text().startswith(f"# Peers\n{BEGIN}\n## Plain")
    assert page.read_text().endswith(f"How.\n{END}\nlast\n")
    tables = tables_of_numbers(tmp_path)
    assert [(found.heading, found.command) for found in tables] == [
        (heading, "benchmarks/head_to_head.py --traces DIR") for heading in ("Plain", "Plain", "Noise", "Noise")
    ]
    assert tables[1].rows[0] == ("a 1.0", "0", "0", "3", "0", "0")
    assert tables[0].rows[1] == ("b 1.0", "200", "1 of 2", "1.0 s", "not found", "7", "2", "15 ms")


def test_a_page_without_the_marks_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "peers.md"
    page.write_text("# Peers\n")
    with pytest.raises(ValueError, match="needs the lines"):
        written_into(page, "")
    assert page.read_text() == "# Peers\n"


def test_what_is_never_found_has_no_number_in_json() -> None:
    told = json.loads(json.dumps(result("Plain", "b", [1.0, math.inf]).as_json(), allow_nan=False))
    assert (told["delay_median_seconds"], told["delay_90_seconds"], told["found"]) == (1.0, None, 1)
    assert told["false_by_media"] == {"text/html": 2}
    assert "no changes" in " ".join(result("Plain", "b", []).cells())


def test_the_script_says_what_it_needs() -> None:
    script = Path(__file__).parents[2] / "benchmarks" / "head_to_head.py"
    run = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "--traces" in run.stderr
    assert "--peers" in run.stderr


def test_an_empty_table_still_has_its_head() -> None:
    assert table([]).splitlines()[0].startswith("| program | requests |")


def states(**told: list[str]) -> States:
    """Returns pages whose versions say this."""
    found = {name: contents.Page("text/plain", [text.encode() for text in texts]) for name, texts in told.items()}
    return States(found, contents.whole)


def test_a_change_without_a_report_has_a_cause() -> None:
    changes = [PageChange("home", 1000.0 + at, at // 10, True) for at in (20, 30, 40, 50, 60)]
    requests = polls((1001.0, 0), (1022.0, 2), (1045.0, 4), (1051.0, 5))
    score = judged(requests, changes, [Report("home", 1022.5)], WINDOW)
    assert [change.version for change in score.missed] == [3, 4, 5, 6]
    assert score.known == {"home": 2}
    same = states(home=["a", "a", "b", "c", "b", "b", "e"])
    assert causes(score, requests, WINDOW, same) == {BACK: 2, ORDER: 1, NOT_ASKED: 1}
    other = states(home=["a", "a", "b", "c", "d", "b", "e"])
    assert causes(score, requests, WINDOW, other) == {SEEN: 2, BACK: 1, NOT_ASKED: 1}
    late = polls((1045.0, 4), (1055.0, 4))
    assert causes(judged(late, changes[:1], [], WINDOW), late, WINDOW, other) == {FIRST: 1}


def test_what_counts_of_a_page_is_read_by_its_medium() -> None:
    page = b"<head><title>t</title></head><body><nav><li>n</li></nav><p>a <script>s</script> b</p><h1>c</h1></body>"
    assert contents.whole("text/html", page) == "n a b c"
    assert contents.selected("text/html", page) == "a b"
    feed = b"<rss><channel><item><title>b</title><link>x</link></item><item><title>a</title></item></channel></rss>"
    assert contents.whole("application/rss+xml", feed) == "a\nb x"
    assert contents.selected("application/rss+xml", feed) == "a\nb"
    incidents = b'{"Incidents": [{"Name": "x", "PercentContained": 5.0}]}'
    assert contents.whole("application/json", incidents) == '{"Incidents": [{"Name": "x", "PercentContained": 5.0}]}'
    assert contents.selected("application/json", incidents) == "[5.0]"
    assert contents.selected("text/markdown", b"# A  b\ntext\n## C\n") == "# A b\n## C"


def test_polls_are_held_against_what_they_were_served() -> None:
    verdicts = Verdicts()
    told = [(1001.0, "first"), (1002.0, "unchanged"), (1003.0, "proving"), (1003.5, "changed"), (1004.0, "changed")]
    told += [(1005.0, "proving"), (1005.5, "unchanged"), (1006.0, "unchanged"), (1007.0, "timeout")]
    requests = polls(
        (1001.0, 0), (1002.0, 1), (1003.0, 2), (1003.5, 2), (1004.0, 2), (1005.0, 3), (1005.5, 4), (1006.0, 5)
    )
    recorded = [Poll("home", at, outcome) for at, outcome in told]
    verdicts.add_page(recorded, requests, states(home=["a", "a", "b", "c", "b", "d"]))
    assert (verdicts.found, verdicts.missed, verdicts.gone, verdicts.false) == (1, 1, 1, 1)
    assert (verdicts.polls, verdicts.proving, verdicts.met, verdicts.delays) == (9, 2, 2, [0.5])
    assert (verdicts.precision, verdicts.recall) == (0.5, 0.5)
    assert (Verdicts().precision, Verdicts().recall) == (1.0, 1.0)
