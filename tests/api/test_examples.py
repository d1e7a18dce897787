"""Examples of bodies, in OpenAPI and in the pages: the API that they are of takes each."""

from __future__ import annotations

import datetime
import json
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pollerd.api.inputs import check_selections
from tests.api.conftest import Api
from tests.support.openapi import DOCUMENT

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("deploy/**/*.md")])
SITES = (
    *(f"https://example.org/{n}" for n in range(3)),
    "https://example.org/news",
    "https://example.org/prices",
    "https://example.org/old",
    "https://example.com/a",
)
_PLACES = {"site_id": "1", "source_id": "1", "channel_id": "1", "rule_id": "1", "job_id": "1", "user_name": "ann"}
_AT_HOME = re.compile(r"(?:https?://)?127\.0\.0\.1:8080/api/v1")


def _followed(node: Any) -> Any:
    while isinstance(node, dict) and "$ref" in node:
        found: Any = DOCUMENT
        for part in node["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        node = found
    return node


def of_openapi() -> Iterator[tuple[str, str, Any]]:
    """Yields method, path below /api/v1 and body of each example of a JSON body."""
    for path, item in DOCUMENT["paths"].items():
        for method, operation in item.items():
            content = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if content is None or not path.startswith("/api/v1"):
                continue
            schema = _followed(content["schema"])
            for example in [content["example"]] if "example" in content else schema.get("examples", ()):
                yield method.upper(), path.removeprefix("/api/v1"), example


def of_pages() -> Iterator[tuple[str, str, Any]]:
    """Yields method, path below /api/v1 and body of each call of curl with a JSON body."""
    for page in PAGES:
        lines = page.read_text().replace("\\\n", " ").splitlines()
        for number, line in enumerate(lines):
            words = _words(lines[number:]) if line.lstrip().startswith("curl ") else []
            given = next((words[i + 1] for i, word in enumerate(words) if word in ("-d", "--json")), "")
            url = next((word for word in words if _AT_HOME.match(word)), None)
            if given.startswith("{") and url is not None:
                method = words[words.index("-X") + 1] if "-X" in words else "POST"
                yield method, _AT_HOME.sub("", url), json.loads(given)


def _words(lines: list[str]) -> list[str]:
    """Returns the words of the command that begins here; quoted ones may go over several lines."""
    for end in range(1, len(lines) + 1):
        try:
            return shlex.split("\n".join(lines[:end]), comments=True)
        except ValueError:  # a quotation is open yet
            continue
    return []


OF_ACCOUNTS = ("/users", "/tokens", "/sessions")
"""Paths of calls that are tried last: from the first user on, callers have to sign in."""


async def _filled(api: Api) -> None:
    """With what the examples name."""
    for url in SITES:
        await api.add(url, tags=["news", "daily"])
    await api("POST", "/sources", {"url": "https://example.org/sitemap-of-old.xml"})
    for name in ("hook", "ops", "me", "phone", "desk", "mail"):
        settings = {"url": "https://hooks.example.org/pollerd"}
        await api("POST", "/channels", {"name": name, "kind": "webhook", "settings": settings})
    await api("POST", "/signal-sources", {"kind": "push", "name": "cms"})
    await api("POST", "/rules", {"name": "r", "channels": ["hook"]})


def _now(body: Any) -> Any:
    """The example with the present in place of its times: those of the distant past are refused."""
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return json.loads(re.sub(r"2026-01-31T1[12]:[0-9:.]+Z", now, json.dumps(body)))


@pytest.mark.parametrize("calls", [of_openapi, of_pages])
async def test_the_api_takes_each_example(api: Api, calls: Callable[[], Iterator[tuple[str, str, Any]]]) -> None:
    refused, is_filled = [], False
    # What a list would change first: it cannot name what others added.
    in_turn = sorted(calls(), key=lambda call: (not call[1].endswith("/diff"), call[1].startswith(OF_ACCOUNTS)))
    for method, path, body in in_turn:
        if not (is_filled or path.endswith("/diff")):
            await _filled(api)
            is_filled = True
        place = re.sub(r"\{(\w+)(:\w+)?\}", lambda found: _PLACES.get(found[1], "offices"), path)
        place = "/hosts/example.org:443" if "/hosts/" in path else place
        reply = await api(method, place, _now(body))
        there = {409} | (
            {401, 404} if path.startswith(OF_ACCOUNTS) or "/noise/" in path else set()
        )  # which this caller is not part of; no noise was learned
        if not (reply.status < 300 or reply.status in there):
            refused.append((method, place, body, reply.status, reply.body))
    assert not refused, "\n".join(map(str, refused))


def test_there_are_examples_of_both_kinds() -> None:
    assert len(list(of_openapi())) > 20
    assert len(list(of_pages())) > 8


def of_selections() -> Iterator[dict[str, Any]]:
    """Yields the selections that docs/selections.md shows: whole ones, steps, values and conditions."""
    text = (ROOT / "docs/selections.md").read_text()
    for block in re.findall(r"(?:^    .*\n)+", text, re.MULTILINE):
        if block.lstrip().startswith("{"):
            yield json.loads(block)
    values = {"price": {"kind": "price", "decimal": "."}}
    for shown in re.findall(r"`(\{[^`]*\})`", text):
        known = shown.replace("\\|", "|").replace("pattern", '"x"').replace("[…]", '[{"only": "additions"}]')
        known = known.replace('"not": …', '"not": {"only": "additions"}').replace('"value": name', '"value": "price"')
        known = known.replace('"re": …', '"re": "(a)"')
        known = re.sub(r'("css"|"text"|"with"): …', r'\1: "a"', known)
        yield {"default": _selection_with(json.loads(known), values)}


def _selection_with(part: dict[str, Any], values: Any) -> dict[str, Any]:
    steps = {"as", "remove", "keep", "items", "text", "lines", "replace", "find", "space", "case", "unique", "sort"}
    if part.keys() <= {"text", "re", "case"} and not isinstance(part.get("text"), dict):
        return {"conditions": {"present": part}} if part.keys() != {"case"} else {"steps": [part]}
    return {"steps": [part]} if steps & part.keys() else {"conditions": part, "values": values}


SELECTIONS = [*of_selections()]


@pytest.mark.parametrize("selections", SELECTIONS, ids=[json.dumps(one)[:80] for one in SELECTIONS])
def test_selections_of_the_page_can_be_set(selections: dict[str, Any]) -> None:
    assert check_selections(selections)
