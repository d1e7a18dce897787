"""What commands print, in a language that only the catalogue has: each is run against a served daemon.

JSON, names and what stands in the daemon's JSON are no texts.
"""

from __future__ import annotations

import asyncio
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pollerd import texts
from pollerd.allocation import registry
from pollerd.api.formats import MovedFrom
from pollerd.api.settings import Scope
from pollerd.app.demo_web import SiteKind
from pollerd.app.options import OPTIONS
from pollerd.cli.commands import app
from pollerd.cli.output import as_typed
from pollerd.cli.serving import status_parts
from pollerd.daemon.views import Status
from pollerd.errors import PollerdError
from pollerd.model import JobAction, JobState, SiteState
from pollerd.site_settings import SITE_SETTINGS
from tests.api.test_wrong_ways import COMMANDS as WRONG
from tests.api.test_wrong_ways import FILES
from tests.support.pseudo import PseudoLanguage, untranslated
from tests.web.conftest import Web

COMMANDS = r"""
sites add https://new.example/a --weight 2 --tag news
sites add https://new.example/a
sites list
sites list --tag nosuch
sites show 1
sites edit 1 --weight 3 --select "css=p"
sites pause 1
sites resume 1
sites poll 1
sites preview 1 --stored --select "css=p"
sites preview 1 --stored --select "css=.nosuch"
sites noise 1
sites import list.csv
sites import twice-rejected.csv
sites diff list.csv
sites bulk tag new --all
sites bulk pause --tag news
sites bulk resume --all
sites remove https://new.example/a
jobs
jobs show 1
jobs undo 1
sources add https://example.org/sitemap.xml
sources list
sources show 1
sources read 1
sources show 1 --pages
sources edit 1 --limit 5
sources remove 1
signals add cms --kind push
signals list
signals show 1
signals site 1
signals report cms https://example.org/0
signals remove 1
tags set news --weight 2
tags list
tags show news
tags remove news
channels add hook --kind webhook --set url=http://127.0.0.1:9/
channels list
channels show hook
channels rotate hook
channels edit hook --set url=http://127.0.0.1:9/b
channels edit hook --disable
channels test hook
rules add news --channel hook --tag news --quiet 22:00-07:00 --zone UTC
rules list
rules show news
rules mute news --until 2h
rules unmute news
rules edit news --digest daily@08:00 --zone UTC
deliveries
deliveries attempts
deliveries resend 1
changes
changes --matters --limit 1
values 1
diff 1
reads report 1
reads site 1
reads forget 1
export backup.jsonl
import backup.jsonl --dry-run
import backup.jsonl
plan --share 90% --within 1h
plan --share 90% --within 30m --tag news
doctor
nodes
nodes drain n1
collection status
collection pages
users list
users add ada --no-password
users role ada write
users remove ada
tokens list
tokens
config show
rules remove news
channels remove hook
simulate web --steps 200 --runs 1 --sites 5 --jobs 1
"""


class Spoken(PseudoLanguage):
    """The daemon does not know its code, and answers in the language of the program: this one."""

    code = "eo"


@pytest.fixture(autouse=True)
def _pseudo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "list.csv").write_text("url,weight\nhttps://new.example/b,2\nhttps://new.example/c,3\n")
    (tmp_path / "twice-rejected.csv").write_text(
        "url,weight\nhttps://new.example/d,2\nfoo,3\nhttps://new.example/e,x\n"
    )
    monkeypatch.chdir(tmp_path)
    texts.speak(Spoken())
    yield
    texts.speak(texts.language(texts.ENGLISH))


def printed(words: list[str], root: str) -> tuple[str, str]:
    """What a command writes to standard output, and to standard error without the frames of Typer."""
    more = {"POLLERD_URL": root, "COLUMNS": "300"}
    while re.match(r"POLLERD_\w+=", words[0]):
        name, _, value = words.pop(0).partition("=")
        more[name] = value
    if words[0] == "run":
        del more["POLLERD_URL"]
    result = CliRunner().invoke(app, words, input="", env=more)
    if isinstance(result.exception, PollerdError):  # as `main` shows it
        return result.stdout, as_typed(str(result.exception))
    assert result.exception is None or isinstance(result.exception, SystemExit), (words, result.exception)
    lines = [one.strip(" │╭╮╰╯─") for one in result.stderr.splitlines()]
    kept = [one for one in lines if one and not one.startswith(("Usage:", "Try ", "Error"))]
    return result.stdout, "\n".join(kept)


NAMES = frozenset(
    word
    for name in (
        *SITE_SETTINGS,
        *OPTIONS,
        *registry.names(),
        *JobAction,
        *JobState,
        *SiteState,
        *Scope,
        *MovedFrom,
        "url sender previous_secret previous_until recipients share within pattern pdf_password query method headers",
        "selections default steps keep css xpath jsonpath character header document settings channels event token sha",
        "shop changes ok WRONG note loop database link calibration noise faults lag commits sites robots pollerd none",
        "limit environment hint strict appears missing",
    )
    for word in re.findall("[A-Za-z]+", str(getattr(name, "value", name)))
)
"""Words of names that programs read, which stand in sentences as they are."""
FOREIGN = (
    *("Page 0", "change 1", "change 2", "a user of this machine", "No such file or directory", "Connection refused"),
    *("expecting property name enclosed in double quotes", "Invalid expression", "unbalanced brackets", "missing )"),
    *("Invalid value (at line 1, column 10)", "URL", "re: (", "budgit", "wieght", "hook", "undone"),
    "does not fit the page, which is text",  # made in a process of its own, which has the languages with files only
    *("txt", "csv", "tsv", "jsonl", "ndjson", "opml", "xml", "toml", "yaml", "yml", "docx"),
)
"""What users, pages and libraries wrote."""
_LOGGED = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \[")
_NAME = re.compile(r"[\w.:/@*{}'+=-]*")


def cells(out: str) -> Iterator[str]:
    """Yields what is no name: all but headers of tables, fields, identifiers, differences of pages and log lines."""
    lines = [line for line in out.splitlines() if not _LOGGED.match(line)]
    is_table = bool(lines) and "\t" in lines[0]
    for line in lines[1:] if is_table else lines:
        if line[:1] in "-+@ ":
            continue
        for cell in line.split("\t") if is_table else (line,):
            if not _NAME.fullmatch(cell) and not cell.startswith(("{", "[")):
                yield cell


def english(text: str, typed: list[str]) -> list[str]:
    """The words of a text that nobody translated. typed: words of the command."""
    names = r"\b[a-z_]+(?:\[\d+\])?(?:\.[a-z_]+(?:\[\d+\])?)+"  # such as rule.events[0]
    quoted = re.sub(rf"'[^']*'|\{{\".*\}}|sha256:\w+|{names}", " ", text)
    words = [word for word in typed if len(word) > 1]
    return [word for word in untranslated(quoted, (*FOREIGN, *words)) if word not in NAMES]


async def test_commands(busy: Web) -> None:
    left, seen = [], 0
    for line in COMMANDS.strip().splitlines():
        words = shlex.split(line)
        out, err = await asyncio.to_thread(printed, list(words), busy.root)
        for text in (*cells(out), *err.splitlines()):
            seen += 1
            if missing := english(text, words):
                left.append(f"{line}: {text}: {missing}")
    assert left == [], "; ".join(left)
    assert seen > 7


async def test_wrong_commands(busy: Web) -> None:
    left = []
    for line in WRONG.strip().splitlines():
        words = shlex.split(line)
        _out, err = await asyncio.to_thread(printed, list(words), busy.root)
        if missing := english(err, words):
            left.append(f"{line}: {missing}")
    assert left == [], "; ".join(left)


def test_the_status_line() -> None:
    status = Status(1, 0, 2, 1, 0.5, 5.0, True, "7")
    assert [text for text, _is_bad in status_parts(status, "7") if untranslated(text)] == []


IN_PSEUDO = """
from pollerd import texts
from tests.support.pseudo import PseudoLanguage
texts.speak(PseudoLanguage())
from pollerd.cli.commands import app
app()
"""


def test_the_demonstration() -> None:
    demo = ["demo", "--for", "6", "--budget", "40", "--sites", "16", "--seed", "1"]
    root = Path(__file__).parents[2]
    ended = subprocess.run(
        [sys.executable, "-c", IN_PSEUDO, *demo], capture_output=True, text=True, timeout=180, cwd=root, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.count("⟦") > 10
    names = ("min", *SiteKind, *(state.replace("_", " ") for state in SiteState))
    assert untranslated(ended.stdout, names) == []
