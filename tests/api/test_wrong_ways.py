"""Wrong commands, and what is said to them: `WRITE_DOCS=1 pytest` of this file writes docs/wrong-commands.md.

The page is for a person to judge: each message names what was typed, and says what is allowed or what to do.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pollerd.cli.commands import app
from pollerd.cli.output import as_typed
from pollerd.errors import PollerdError
from tests.api.conftest import Api

PAGE = Path(__file__).parents[2] / "docs" / "wrong-commands.md"
FILES = {
    "misspelled.csv": "url,wieght\nhttps://example.org/,2\n",
    "twice.csv": "url,weight,weight\nhttps://example.org/,2,3\n",
    "without-url.csv": "weight,cost\n2,3\n",
    "misspelled.yaml": "sites:\n- url: https://example.org/\n  wieght: 2\n",
    "list.docx": "",
    "broken.toml": "budget = \n",
    "misspelled.toml": "budgit = 3\n",
    "wrong.toml": 'budget = "lots"\n',
    "heavy.toml": '[[sites]]\nurl = "https://example.org/"\nweight = "heavy"\n',
    "channels.toml": '[[channels]]\nname = "hook"\n',
    "letter.txt": "Dear reader\n",
}
COMMANDS = r"""
run missing.txt
run --budget lots
run --budget 0
run --budgett 5
sits list
run --allocator whitle
run --allocator best
run --objective chnages
run --shadow whitle
POLLERD_BUDGIT=3 run
POLLERD_BUDGET=lots run
run --config misspelled.toml
run --config broken.toml
run --config wrong.toml
run --config channels.toml
run list.docx
run heavy.toml
run letter.txt
run --listen 0.0.0.0:8081
run --listen 8081
run --min-yield 5
run --min-interval "5 minutes"
run --max-interval 10s
run --respect-ttl maybe
run --sync yes
run missing/sites.txt
run --config missing.toml
run --proxy foo
run --memory-sites few
run --port 8080
run --interval 5m
run --user-agent me
sites add
sites add example.org
sites add https://example.org/
sites add https://
sites add "https://example.org/a b"
sites add ftp://example.org/
sites add https://ada:secret@example.org/
sites add https://new.example/ --weight heavy
sites add https://new.example/ --weight -1
sites add https://new.example/ --min-interval 1x
sites add https://new.example/ --wieght 2
sites add https://new.example/ --method PUT
sites add https://new.example/ --css p
sites add https://new.example/ --cookie a=b
sites show 9999
sites show other.example
sites pause 9999
sites edit 1
sites edit 1 --select "css=:::"
sites edit 1 --select "css=p["
sites edit 1 --select "{"
sites edit 1 --select '{"conditions": {"appear": {"text": "sold"}}}'
sites edit 1 --select "xpath=//["
sites edit 1 --select "$.a["
sites edit 1 --windows noon
sites edit 1 --respect-ttl maybe
sites edit 1 --render chrome
sites edit 1 --keep-screenshots perhaps
sites edit 1 --min-interval 1h --max-interval 10m
sites bulk delete
sites bulk delete --all --tag news
sites bulk weight --all
sites bulk weight many --all
sites import
sites import missing.csv
sites import --dry-run yes
sites import misspelled.csv
sites import twice.csv
sites import without-url.csv
sites import misspelled.yaml
sites import --from changedetecton list.docx
sites list --state brokn
rules add news --channel nosuch
rules add news
rules add news --channel hook --quiet 25:00-07:00
rules add news --channel hook --digest weekly
rules add news --channel hook --digest daily@25:00 --zone UTC
rules add news --channel hook --quiet 22:00-07:00 --zone Mars
rules add news --channel hook --event site.chnaged
channels add hook --kind slack --set url=https://hooks.example/
channels add hook --kind webhok --set url=https://hooks.example/
channels add hook --kind webhook
channels add hook --kind webhook --set addres=https://hooks.example/
channels add mail --kind email --set to=me@example.org
channels add mail --kind email --set password=secret
channels add mail --kind email --set host=mail.example.org --set recipients=me
channels test nosuch
plan --share 150% --within 1h
plan --share 90% --within tomorrow
changes --since yesterday
changes --limit few
changes --json yes
diff 99
diff abc
jobs undo 77
simulate web --allocator wittle
simulate history
tags set news --weight many
tags set news --wieght 2
sources add https://example.org/sitemap.xml --pattern "re:("
sources add https://example.org/sitemap.xml --limit 0
import letter.txt
users add ada --role admin
deliveries --since yesterday
sites list --url 127.0.0.1:8080
sites list --url http://127.0.0.1:1
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(line: str, root: str) -> str:
    """What a command says, on one line."""
    words, more = shlex.split(line), {"POLLERD_URL": root, "COLUMNS": "200"}
    while re.match(r"POLLERD_\w+=", words[0]):
        name, _, value = words.pop(0).partition("=")
        more[name] = value
    if words[0] == "run":
        del more["POLLERD_URL"]
    result = CliRunner().invoke(app, words, input="", env=more)
    assert result.exit_code in (1, 2), (line, result.output)
    if isinstance(result.exception, PollerdError):  # as `main` shows it
        return as_typed(str(result.exception))
    assert result.exception is None or isinstance(result.exception, SystemExit), (line, result.exception)
    lines = [one.strip(" │╭╮╰╯─") for one in result.stderr.splitlines()]
    kept = [one for one in lines if one and not one.startswith(("Usage:", "Try ", "Error"))]
    return " ".join(kept).removeprefix("pollerd: ")


async def test_wrong_commands_are_answered_in_sentences(api: Api, folder: Path) -> None:
    await api("POST", "/sites", {"url": "https://example.org/"})
    rows = list[tuple[str, str]]()
    for line in COMMANDS.strip().splitlines():
        message = await asyncio.to_thread(said, line, api.root)
        rows.append((line, message.replace(api.root, "http://127.0.0.1:8080").replace(f"{folder}/", "")))
    for line, message in rows:
        assert message, line
        assert "Traceback" not in message, line
        assert "char 0" not in message, f"{line}: a parser's words: {message}"
        assert not re.search(r"steps\[|must be left out|given: 'none'|must be given\b", message), f"{line}: {message}"
    head = (
        "# Wrong commands\n\nWhat pollerd answers to commands that cannot work; written by "
        "`tests/api/test_wrong_ways.py`.\n\n"
        "| command | answer |\n| --- | --- |\n"
    )
    cells = (tuple(text.replace("|", "\\|") for text in row) for row in rows)
    page = head + "".join(f"| `{line}` | {message} |\n" for line, message in cells)
    if os.environ.get("WRITE_DOCS"):
        PAGE.write_text(page)
    assert PAGE.read_text() == page, "write the page anew with WRITE_DOCS=1"
