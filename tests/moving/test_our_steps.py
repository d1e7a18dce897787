"""Our steps on the pages of `peers.json`: what the real programs showed, line by line, but for how each writes text."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from pollerd.detection.selection.selection import compile_selection

TABLE = json.loads((Path(__file__).parent / "peers.json").read_text())
OTHERWISE = {
    '{"element-by-id": "t"}, "html2text"': "urlwatch strips tags, and runs cells together",
    '{"element-by-tag": "footer"}, {"html2text": "bs4"}': "and words",
    '{"grepi": "(?i)last updated"}': "and keeps the text of styles, and list items in one line",
    '{"grep": "release"}, "sort", "remove-duplicate-lines"': "and keeps list items in one line",
    '{"re.sub": {"pattern": "sid=\\\\w+", "repl": "sid=X"}}': "and the text of scripts",
    '"sha1sum"': "the bytes are compared themselves",
    '{"jq": ".items[].name"}': "several matches are a JSON list",
    '"json:items[*].name"': "several matches are a JSON list, not a Python one",
    '"pretty-xml"': "without an XML declaration",
    '"ignore_text": ["last updated", "/menu|home/i"]': "the peer shows what it ignores",
}
"""Part of a job -> why our lines are others."""


def reason_of(job: dict[str, Any]) -> str | None:
    written = json.dumps(job["job"])
    return next((why for part, why in OTHERWISE.items() if part in written), None)


def lines(text: str) -> list[str]:
    """Lines without what only writing differs in: bullets, Markdown's links, the page's title, white space."""
    text = re.sub(r"\[(\w+)\]\((\S+)\)", r"\1 (\2)", text)
    found = [" ".join(line.split()).removeprefix("* ") for line in text.split("\n")]
    return [line for line in found if line and line != "Kettles"]


def ours(job: dict[str, Any]) -> list[str]:
    page = TABLE["pages"][job["page"]]
    selection = compile_selection("default", "selections.default", job["selection"])
    found = selection.read(page["body"].encode(), page["type"], "http://example.org/")
    assert found.missing == ""
    return lines(found.content.decode())


@pytest.mark.parametrize("job", TABLE["jobs"], ids=lambda job: f"{job['program']}:{json.dumps(job['job'])[:60]}")
def test_our_lines_are_the_peers(job: dict[str, Any]) -> None:
    same = ours(job) == lines(job["output"])
    assert same == (reason_of(job) is None), (ours(job), lines(job["output"]))
