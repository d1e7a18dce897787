"""`pollerd sites import --from` against a served API."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pollerd.api.access import check_access
from pollerd.api.list_formats import KNOWN_FIELDS
from pollerd.errors import InvalidValueError
from pollerd.moving.fields import FIELDS
from pollerd.moving.request import MOST_HEADERS, MOST_HEADERS_SIZE, MOST_TAG_LENGTH, MOST_TAGS, OWN_HEADERS
from pollerd.site_settings import Access
from tests.api.conftest import Api
from tests.api.test_sites_command import invoke

FILES = Path(__file__).parents[1] / "moving" / "files"
ANSWERS: dict[str, Any] = json.loads((FILES / "changedetection-api.json").read_text())
KEY = "kept-secret-key"
JOBS = """\
name: News
url: https://a.org/news
tags: [x]
headers: {X-Key: kept-secret-value}
filter: [{css: h1}, {shellpipe: ls}]
---
url: https://b.org/
data: a
"""


@pytest.fixture(autouse=True)
def daemon(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLLERD_URL", api.root)


class Source(http.server.BaseHTTPRequestHandler):
    """The API of changedetection.io, as recorded."""

    def do_GET(self) -> None:
        if self.path == "/moved/api/v1/watch":
            self.send_response(302)
            self.send_header("Location", "/api/v1/watch")
            self.end_headers()
            return
        right = self.headers["x-api-key"] == KEY
        data = json.dumps(ANSWERS.get(self.path.removeprefix("/api/v1")) if right else "Invalid access").encode()
        self.send_response(200 if right else 403)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *given: object) -> None:
        """Says nothing."""


@pytest.fixture
def source() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Source)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


async def sites() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((await invoke("list", "--json")).stdout)
    return found


async def test_jobs_are_added_with_what_pollerd_takes(tmp_path: Path) -> None:
    file, report = tmp_path / "urls.yaml", tmp_path / "report.txt"
    file.write_text(JOBS)
    done = await invoke("import", str(file), "--from", "urlwatch", "--report", str(report))
    assert (done.exit_code, done.stdout) == (0, f"{1 + FIELDS['body']} added, 0 existed already, 0 rejected\n")
    (news,) = [site for site in await sites() if "a.org" in site["url"]]
    assert (news["url"], news["tags"]) == ("https://a.org/news", ["x"])
    assert "job 1 (News): filter[1].shellpipe: not carried: pollerd starts no programs" in done.stderr
    assert "kept-secret" not in done.output + report.read_text()
    assert "job 1 (News): tags: carried" in report.read_text()


async def test_a_dry_run_adds_nothing_and_shows_no_secret(tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(JOBS)
    shown = await invoke("import", str(file), "--from", "webchanges", "--dry-run")
    assert shown.exit_code == 0, shown.output
    assert json.loads(shown.stdout)[0]["headers"] == {"X-Key": "(not shown)"}
    assert "kept-secret" not in shown.output
    assert await sites() == []


async def test_a_dry_run_refuses_what_the_import_refuses(tmp_path: Path) -> None:
    """And says the most important things first."""
    file = tmp_path / "urls.yaml"
    jobs = ["url: https://a.org/\nfilter: [{css: 'p::before'}, html2text]", "url: https://b.org/\nfilter: [html2text]"]
    file.write_text("\n---\n".join(jobs))
    shown = await invoke("import", str(file), "--from", "urlwatch", "--dry-run")
    first, second, third, refused, *_ = shown.stderr.splitlines()
    assert (first, shown.exit_code) == ("pollerd: 1 site can be added, 1 more would be refused", 1)
    assert second == "pollerd: 5 keys carried, 2 approximated, 0 not carried"
    assert third.startswith("pollerd: what was refused, approximated or not carried follows")
    assert refused.startswith("entry 1 (https://a.org/): selections.default.steps[0].keep.css")
    done = await invoke("import", str(file), "--from", "urlwatch")
    assert (done.exit_code, done.stdout) == (1, "1 added, 0 existed already, 1 rejected\n")
    assert refused.split("): ", 1)[1] in done.stderr
    file.write_text("url: https://c.org/\nfilter: [{re.sub: a}]\n")
    shown = await invoke("import", str(file), "--from", "urlwatch", "--exact", "--dry-run")
    assert shown.stderr.splitlines()[-1] == "pollerd: nothing was lost"
    assert shown.exit_code == 0


async def test_watches_come_from_the_api_of_the_other_program(source: str, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text(f"{KEY}\n")
    given = ("import", "--from", "changedetection", "--source-url", source, "--source-key-file", str(key))
    done = await invoke(*given, "--json")
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert result["added"] == len(await sites()) > 2
    assert {line["fate"] for line in result["report"]} >= {"carried", "approximated", "not carried"}
    assert "kept-secret" not in done.output
    again = await invoke(*given)
    assert again.stdout.startswith("0 added")


async def test_watches_come_from_a_backup(tmp_path: Path) -> None:
    done = await invoke("import", str(FILES / "changedetection-backup.zip"), "--from", "changedetection")
    assert done.exit_code == 0, done.output
    (hours,) = [site for site in await sites() if site["url"].endswith("/hours")]
    assert (hours["min_interval"], hours["max_interval"], hours["tags"]) == (5400.0, 5400.0, ["Shops"])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--from", "changedetection", "--source-url", "SOURCE"), "refuses the key (403)"),
        (("--from", "changedetection", "--source-url", "SOURCE/moved"), "302"),
        (("--from", "changedetection", "--source-url", "http://127.0.0.1:9"), "nothing answers"),
        (("--from", "changedetection", "--source-url", "ftp://x"), "source-url"),
        (("--from", "changedetection", "--source-url", "http://u:kept-secret@h"), "source-url"),
        (("--from", "changedetection"), "either a file or --source-url"),
        (("--from", "urlwatch"), "needs a file"),
        (("--dry-run",), "go with --from"),
        ((), "give a file, or - for standard input"),
    ],
)
async def test_what_cannot_be_read_is_told_in_one_line(source: str, words: tuple[str, ...], told: str) -> None:
    refused = await invoke("import", *(word.replace("SOURCE", source) for word in words))
    assert refused.exit_code in (1, 2), refused.output
    assert told in refused.stderr
    assert "kept-secret" not in refused.output
    assert refused.stderr.count("\n") == 1


def test_the_table_of_fields_says_what_the_lists_take() -> None:
    assert {name for name, taken in FIELDS.items() if taken} <= set(KNOWN_FIELDS)
    assert {name for name, taken in FIELDS.items() if not taken} & set(KNOWN_FIELDS) == set(), "open it in the table"


def test_limits_are_those_of_the_api() -> None:
    from pollerd.api import access, inputs

    assert (MOST_TAGS, MOST_TAG_LENGTH) == (inputs.MAX_TAGS, inputs.MAX_TAG_LENGTH)
    assert (MOST_HEADERS, MOST_HEADERS_SIZE) == (access.MAX_HEADERS, access.MAX_HEADERS_SIZE)
    for name in OWN_HEADERS:
        with pytest.raises(InvalidValueError, match="sets this header itself"):
            check_access(Access(headers=((name, "x"),)))
    assert check_access(Access(headers=(("Accept", "x"), ("Cookie", "x"))))
