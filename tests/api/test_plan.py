"""The plan of the budget, over REST and on the command line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

import msgspec
import pytest
from pydantic import TypeAdapter
from typer.testing import CliRunner, Result

from pollerd.allocation.registry import names
from pollerd.cli.commands import app
from pollerd.planning import BudgetPlan, PlanLimit, sentences
from tests.api.conftest import Api

Run = Callable[..., Awaitable[Result]]


@pytest.fixture
def run(api: Api, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`await run("--share", "90%")` runs the command against the API."""
    monkeypatch.setenv("POLLERD_URL", api.root)

    async def invoke(*words: str) -> Result:
        return await asyncio.to_thread(CliRunner().invoke, app, ["plan", *words])

    return invoke


def test_every_limit_is_documented() -> None:
    defined = TypeAdapter(BudgetPlan).json_schema()["$defs"]
    assert defined["HeldBack"]["properties"]["limit"] == {"$ref": "#/$defs/PlanLimit"}
    assert defined["PlanLimit"]["enum"] == [*PlanLimit]


async def test_the_budget_that_a_share_needs(api: Api) -> None:
    for number in range(20):
        await api.add(f"http://h{number}.example/", tags=["shop"] if number < 5 else [])
    reply = await api("GET", "/plan?share=0.9&within=1800&tag=shop")
    assert reply.status == 200
    found = reply.json
    assert (found["share"], found["within"], found["tag"]) == (0.9, 1800.0, "shop")
    assert (found["objective"], found["allocator"], found["current_budget"]) == ("changes", "whittle", 5.0)
    assert (found["sites"], found["seldom_polled"]) == (5, 5)
    assert found["budget"] > 0
    assert [(one["tag"], one["sites"]) for one in found["by_tag"]] == [("shop", 5)]
    assert (await api("GET", "/plan?share=90%25&within=30m&tag=shop")).json == found
    everything = (await api("GET", "/plan")).json
    assert (everything["sites"], everything["share"], everything["within"]) == (20, 0.9, 1800.0)
    assert (await api("GET", "/plan?within=2")).json["limits"][0]["limit"] == "min_interval"


@pytest.mark.parametrize(
    ("query", "field", "given"),
    [
        ("share=1", "share", 1.0),
        ("share=0", "share", 0.0),
        ("share=most", "share", "most"),
        ("share=nan", "share", "nan"),
        ("share=150%25", "share", 1.5),
        ("within=0", "within", 0.0),
        ("within=soon", "within", "soon"),
        ("within=1e30", "within", 1e30),
        ("tag=shpo", "tag", "shpo"),
        ("wihtin=5", "wihtin", "5"),
    ],
)
async def test_what_cannot_be_planned_is_named(api: Api, query: str, field: str, given: object) -> None:
    await api.add("http://a.example/", tags=["shop"])
    reply = await api("GET", f"/plan?{query}")
    assert reply.status == 422
    (error,) = reply.json["errors"]
    assert (error["field"], error["given"]) == (field, given)
    assert error["allowed"]


async def test_the_command_says_it_in_sentences(api: Api, run: Run) -> None:
    assert (await run()).stdout == "No page is polled yet: add one by `pollerd sites add URL`.\n"
    for number in range(3):
        await api.add(f"http://h{number}.example/", tags=["shop"])
    plan = msgspec.convert((await api("GET", "/plan?share=0.9&within=1800&tag=shop")).json, BudgetPlan)
    shown = (await run("--share", ".9", "--within", "30m", "--tag", "shop")).stdout.splitlines()
    assert shown[: len(sentences(plan))] == list(sentences(plan))
    goal = "90 % of the changes of 3 pages tagged shop within 30 minutes"
    assert shown[0].startswith(f"To learn of {goal} you need about ")
    assert shown[-2].split("\t") == [
        "tag",
        "sites",
        "changes per day",
        "in time",
        "half within",
        "90 % within",
        "measured",
    ]
    assert shown[-1].split("\t")[:2] == ["shop", "3"]
    assert msgspec.convert(json.loads((await run("--tag", "shop", "--json")).stdout), BudgetPlan) == plan


async def test_the_command_names_what_it_cannot_plan(run: Run) -> None:
    for words, field in (
        (("--share", "2"), "--share"),
        (("--within", "ever"), "--within"),
        (("--tag", "none"), "--tag"),
    ):
        result = await run(*words)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith(f"pollerd: {field}: must be ")


@pytest.mark.parametrize("name", names())
async def test_a_list_without_polled_sites_has_a_plan(api: Api, run: Run, name: str) -> None:
    assert (await api("PUT", "/allocation", {"allocator": name})).status == 200
    for case in ("empty", "paused", "deleted"):
        if case == "paused":
            site_id = await api.add("http://a.example/", tags=["shop"])
            await api("POST", f"/sites/{site_id}/pause")
        elif case == "deleted":
            await api("DELETE", f"/sites/{site_id}")
        result = await run()
        assert (result.exit_code, result.output.strip()) == (
            0,
            "No page is polled yet: add one by `pollerd sites add URL`.",
        ), case
        assert (await api("GET", "/allocation")).status == 200, case
