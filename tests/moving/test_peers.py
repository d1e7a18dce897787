"""Jobs of the real programs: what they become, as benchmarks/peers.py recorded it beside what the programs do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from pollerd.moving.changedetection.backup import read_backup
from pollerd.moving.changedetection.instance import Instance, Watch
from pollerd.moving.changedetection.watch import move
from pollerd.moving.draft import phase
from pollerd.moving.moved import Fate
from pollerd.moving.urlwatch.dialect import URLWATCH, WEBCHANGES
from pollerd.moving.urlwatch.jobs import read_jobs

FOLDER = Path(__file__).parent
TABLE: dict[str, Any] = json.loads((FOLDER / "peers.json").read_text())
JOBS: list[dict[str, Any]] = TABLE["jobs"]
DIALECTS = {"urlwatch": URLWATCH, "webchanges": WEBCHANGES}


def moved_selection(job: dict[str, Any]) -> object:
    if job["program"] in DIALECTS:
        moved = read_jobs(yaml.safe_dump(job["job"]).encode(), DIALECTS[job["program"]])
    else:
        watch = Watch("u", {"url": "http://example.org/", **job["job"]})
        moved = move(Instance([watch], {}, None))
    selections: Any = moved.sites[0].get("selections", {"default": {}})
    return selections["default"]


def test_the_table_is_of_all_three_programs() -> None:
    assert {job["program"] for job in JOBS} == {*DIALECTS, "changedetection.io"}
    assert len(JOBS) > 40
    assert all(job["page"] in TABLE["pages"] for job in JOBS)
    assert [job["job"] for job in JOBS if job["output"] is None] == []


@pytest.mark.parametrize("job", JOBS, ids=lambda job: f"{job['program']} {json.dumps(job['job'])[:60]}")
def test_a_job_becomes_what_the_table_says(job: dict[str, Any]) -> None:
    assert moved_selection(job) == job["selection"]
    phases = [phase(step) for step in job["selection"].get("steps", [])]
    assert phases == sorted(phases)


def test_a_backup_made_by_the_program_itself() -> None:
    moved = move(read_backup((FOLDER / "files" / "changedetection-backup.zip").read_bytes()))
    sites = {str(site.get("title", site["url"])): site for site in moved.sites}
    assert len(sites) == 4, "two watches of one page are one site"
    form, hours = sites["https://example.org/form"], sites["https://example.org/hours"]
    assert (form["method"], form["body"]) == ("POST", "a=1")
    assert form["headers"] == {"X-Key": "kept-secret-value"}
    assert (hours["min_interval"], hours["max_interval"], hours["render"]) == (5400.0, 5400.0, "browser")
    assert all(site["tags"] == ["Shops"] for site in moved.sites)
    shop: Any = sites["Whole page"]
    assert set(shop["selections"]) == {"default", "price"}
    assert {"drop": [{"text": "sid="}]} in [step.get("lines") for step in shop["selections"]["price"]["steps"]]
    stock: Any = sites["Stock"]
    assert stock["selections"]["default"]["conditions"]["all"][0]["any"][-1] == {
        "value": "price",
        "above": 50.0,
        "against": "announced",
    }
    assert "https://example.org/form" not in [site["url"] for site in moved.sites if "paused" not in site]


def test_nothing_secret_of_the_backup_is_in_the_report() -> None:
    data = (FOLDER / "files" / "changedetection-backup.zip").read_bytes()
    instance = read_backup(data)
    assert instance.settings is not None
    application: Any = instance.settings["application"]
    report = "\n".join(map(str, move(instance).report))
    for secret in ("kept-secret", application["api_access_token"], application["rss_access_token"]):
        assert secret not in report
    assert "api_access_token: not carried" in report


def test_every_field_of_the_real_watches_is_known() -> None:
    moved = move(read_backup((FOLDER / "files" / "changedetection-backup.zip").read_bytes()))
    assert [line for line in moved.report if "does not know" in line.how] == []
    assert moved.counts()[Fate.CARRIED] > 20
