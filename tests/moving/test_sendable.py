"""What importers note, as the API takes it: every site of the real backup is one that it accepts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pollerd.api.list_formats import KNOWN_FIELDS, spec_of
from pollerd.detection.selection.steps.plan import PHASE_OF
from pollerd.moving.changedetection.backup import read_backup
from pollerd.moving.changedetection.watch import move
from pollerd.moving.draft import PHASES
from pollerd.moving.fields import FIELDS, sendable
from pollerd.moving.files import without_secrets
from pollerd.moving.moved import Moved
from pollerd.moving.plans import plan_of
from pollerd.moving.urlwatch.dialect import WEBCHANGES
from pollerd.moving.urlwatch.jobs import read_jobs
from pollerd.rendering.plan import compile_plan

BACKUP = Path(__file__).parent / "files" / "changedetection-backup.zip"


def test_a_real_backup_becomes_sites_that_the_api_takes() -> None:
    sent = sendable(move(read_backup(BACKUP.read_bytes())))
    specs = {spec.url: spec for spec in map(spec_of, sent.sites)}
    assert len(specs) == 4
    assert specs["https://example.org/form"].access.body == "a=1"
    assert specs["https://example.org/hours"].render
    assert specs["https://example.org/hours"].cost == 20.0
    assert any(spec.selections for spec in specs.values())


def test_fields_that_are_open_are_the_apis() -> None:
    assert {name for name, taken in FIELDS.items() if taken} <= set(KNOWN_FIELDS)


def test_a_post_without_a_body_stays_a_post() -> None:
    (site,) = sendable(Moved([{"url": "http://a/", "method": "POST"}], [])).sites
    assert spec_of(site).access.body == ""


@pytest.mark.parametrize(
    ("noted", "plan"),
    [
        ({"click": "#ok"}, {"click": "#ok"}),
        ({"click": "#ok", "optional": True}, {"click_if_exists": "#ok"}),
        ({"type": {"into": "#p", "text": "x"}}, {"type": "#p", "secret": "x"}),
        ({"select": {"in": "#s", "label": "S"}}, {"select": "#s", "value": "S"}),
        ({"scroll": "end"}, {"scroll": "bottom"}),
        ({"scroll": "300"}, {"scroll": 300}),
        ({"wait": 2.0}, {"wait": 2.0}),
        ({"wait": {"text": "done"}}, {"wait_for_text": "done"}),
        ({"press": "Enter"}, {"press": "Enter"}),
        ({"remove": ".banner"}, {"remove": ".banner"}),
    ],
)
def test_steps_are_those_of_a_plan(noted: dict[str, Any], plan: dict[str, Any]) -> None:
    made, lost = plan_of({"steps": [noted], "wait_for": "#x", "wait_seconds": 1, "wait_until": "idle"})
    assert (made["steps"], lost) == ([plan], [])
    assert made["wait"] == {"selector": "#x", "seconds": 1, "idle": True}
    compile_plan("render", made)


def test_a_step_that_no_plan_has_is_named() -> None:
    made, lost = plan_of({"steps": [{"click": {"text": "Yes"}}]})
    assert made == {}
    assert lost


def test_what_a_job_waits_for_is_in_its_plan() -> None:
    job = b"url: http://a/\nuse_browser: true\nwait_until: networkidle\nwait_for_selector: main\n"
    (site,) = sendable(read_jobs(job + b"block_elements: [image]\n", WEBCHANGES)).sites
    assert site["render"] == {"wait": {"idle": True, "selector": "main"}, "block": ["image"]}


def test_steps_come_in_an_order_that_a_selection_has() -> None:
    """Importers order steps more finely than a selection needs: never against it."""
    ordered = sorted(PHASES, key=lambda name: PHASES[name])
    phases = [PHASE_OF[name] for name in ordered]
    assert phases == sorted(phases)
    assert PHASES.keys() == PHASE_OF.keys()


def test_what_is_typed_is_shown_to_nobody() -> None:
    plan = {"steps": [{"type": {"into": "#p", "text": "s3cret"}}]}
    (site,) = sendable(Moved([{"url": "http://a/", "render": "browser", "browser": plan, "body": "s3cret"}], [])).sites
    assert "s3cret" in str(site)
    assert "s3cret" not in str(without_secrets(site))
