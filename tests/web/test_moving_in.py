"""Moving in by the browser: files of other programs are tried first, with what each entry was and becomes."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import zipfile
from html import unescape
from pathlib import Path
from uuid import UUID

import aiohttp
import brotli
import pytest

from pollerd.api.formats import MovedFrom
from pollerd.app.rooms import MOVING
from pollerd.moving.files import moved_of_file
from pollerd.moving.moved import RESULT_CHARACTERS
from pollerd.web.moving import program_of
from tests.app.test_without_rooms import installation_without
from tests.support.origin import Origin, until
from tests.support.origin import Page as Served
from tests.support.process import daemon_process
from tests.web.conftest import Answer, Web

FILES = Path(__file__).parents[1] / "moving" / "files"
JOBS = b"""\
name: <b>News</b>
url: https://a.example/news
tags: [x]
headers: {X-Key: kept-secret-value}
filter: [{css: h1}, {shellpipe: ls}]
---
name: Plain
url: https://b.example/
---
command: ls
---
name: Wrong
url: https://c.example/
cookies: {a: "b"}
http_proxy: not a proxy
"""


def _sent(name: str, data: bytes, **fields: str) -> aiohttp.FormData:
    form = aiohttp.FormData({"format": "", **fields})
    form.add_field("file", data, filename=name)
    return form


async def _tried(web: Web, name: str, data: bytes, **fields: str) -> Answer:
    answer = await web.post("/sites/import", _sent(name, data, **fields))
    assert answer.status == 200, answer.text
    return answer


def _run_id(page: str) -> str:
    found = re.search(r'name="run" value="(\d+)"', page)
    assert found is not None
    return found[1]


async def test_jobs_are_tried_and_then_moved(web: Web) -> None:
    await web.api.add("https://b.example/")
    page = (await _tried(web, "urls.yaml", JOBS, tags="moved", add="1")).text
    assert re.search(r"<strong>(\d+) move · 1 cannot · (\d+) to look at</strong>; 1 are watched already", page)
    assert "the whole job: pollerd watches URLs, and starts no programs" in page
    assert "shellpipe" in page
    assert '<dt>Keep</dt><dd dir="auto">h1</dd>' in page, "selections in words"
    assert "steps" not in page
    assert "X-Key: (not shown)" in page
    assert "{" not in page.partition("<main")[2].partition("</main>")[0], "nothing is shown as JSON"
    assert "&lt;b&gt;News&lt;/b&gt;" in page
    assert "kept-secret-value" not in page, "no secret is shown"
    assert len((await web.api("GET", "/sites")).json["items"]) == 1, "a trial adds nothing"
    run = _run_id(page)
    done = await web.post("/sites/import", {"run": run})
    assert "2 new sites, 1 known already, 0 lines that name no site." in done.text
    site = (await web.api.store.sites.get(2)).spec
    assert (site.url, site.title, site.tags) == ("https://a.example/news", "<b>News</b>", ("x", "moved"))
    assert ("X-Key", "kept-secret-value") in site.access.headers
    again = await web.post("/sites/import", {"run": run})
    assert (again.status, "choose the file again" in again.text) == (422, True)


async def test_what_differs_in_all_entries_is_said_once(web: Web) -> None:
    jobs = b"url: https://a.example/\n---\nurl: https://b.example/\n---\n"
    jobs += b"url: https://c.example/\nfilter: [{shellpipe: ls}]\n---\ncommand: ls\n"
    page = (await _tried(web, "urls.yaml", jobs)).text
    assert "<strong>2 move · 1 cannot · 1 to look at</strong>" in page
    assert page.count("In 3 entries: <code>filter (compares the source)</code> approximated") == 1
    cannot = page[page.index("Cannot move") : page.index("Look at these")]
    assert "compares the source" not in cannot
    assert cannot.count("starts no programs") == 2, "two sentences, each once"


async def test_a_backup_moves_with_its_report(web: Web) -> None:
    data = (FILES / "changedetection-backup.zip").read_bytes()
    page = (await _tried(web, "changedetection-backup.zip", data)).text
    numbers = re.search(r"<strong>(\d+) move · (\d+) cannot · (\d+) to look at</strong>", page)
    assert numbers is not None
    move, cannot, look = map(int, numbers.groups())
    assert move + look > 0
    done = await web.post("/sites/import", {"run": _run_id(page)})
    assert f"{move + look} new site" in done.text, "the trial and the import use the same checks"
    assert len((await web.api("GET", "/sites")).json["items"]) == move + look
    assert page.count("<li><details") == move + cannot + look


async def test_the_trial_says_what_the_import_refuses(web: Web) -> None:
    jobs = b"url: https://a.example/\n---\nurl: https://" + b"x" * 70 + b".example/\n---\nurl: https://b.example/\n"
    page = (await _tried(web, "urls.yaml", jobs)).text
    trial = re.search(r"<strong>(\d+) move · (\d+) cannot · (\d+) to look at</strong>", page)
    assert trial is not None
    done = await web.post("/sites/import", {"run": _run_id(page)})
    assert f"{int(trial[1]) + int(trial[3])} new sites" in done.text
    assert int(trial[2]) == 1


def _bomb() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("changedetection.json", b"{" + b" " * 9_000_000 + b"}")
    return packed.getvalue()


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("backup.zip", _bomb(), "times as large unpacked"),
        ("backup.zip", b"PK\x03\x04 no zip", "the backup cannot be read"),
        ("url-watches.json", b'{"watching": 3}', "it has no table of watches"),
        ("urls.yaml", b"url: [", "line "),
        ("urls.yaml", b"- just\n- texts\n", "a job must be a table"),
        ("sites.yaml", b"sites: []\n", ".yaml is not read here"),
        ("sites.toml", b"", "addresses, one a line, or a file"),
    ],
)
async def test_a_file_that_cannot_be_read_says_why(web: Web, name: str, data: bytes, reason: str) -> None:
    answer = await web.post("/sites/import", _sent(name, data, tags="typed"))
    assert answer.status == 422
    assert reason in unescape(answer.text)
    assert 'value="typed"' in answer.text


async def test_a_list_that_is_wrong_stays_in_its_form(web: Web) -> None:
    answer = await web.post("/sites/import", {"list": "https://a.example/", "format": "papyrus", "add": "1"})
    assert answer.status == 422
    assert 'id="error"' in answer.text
    assert "https://a.example/</textarea>" in answer.text


@pytest.mark.parametrize(
    ("name", "data", "program"),
    [
        ("x.zip", b"PK\x03\x04", MovedFrom.CHANGEDETECTION),
        ("url-watches.json", b' {"watching": {}}', MovedFrom.CHANGEDETECTION),
        ("other.json", b"{}", None),
        ("urls.yaml", b"url: https://a\n", MovedFrom.URLWATCH),
        ("jobs.yaml", b"url: https://a\n", MovedFrom.WEBCHANGES),
        ("sites.yml", b"sites:\n- url: https://a\n", None),
        ("tagged.yml", b"url: https://a\ntags: [x]\n", MovedFrom.URLWATCH),
        ("list.txt", b"url: https://a\n", None),
    ],
)
def test_which_program_a_file_is_of(name: str, data: bytes, program: MovedFrom | None) -> None:
    assert program_of(name, data) is program


def test_without_the_room_a_sentence_says_so(tmp_path: Path) -> None:
    variables = installation_without([MOVING.package.removeprefix("pollerd.")], tmp_path)
    code = (
        "from pollerd.web.moving import read_moved\n"
        "from pollerd.api.formats import MovedFrom\n"
        "try:\n    read_moved(MovedFrom.URLWATCH, b'url: https://a')\n"
        "except ValueError as error:\n    print(error)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True)
    assert "moving in from other programs is not part of this installation" in ended.stdout


# What a site kept there, next to what it keeps here.


def _backup(origin: Origin, *results: tuple[str, str, str], selector: str = "h1, .price") -> bytes:
    """A backup whose watches (path, name of the file of its last text, text) keep the same part of their pages."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("changedetection.json", json.dumps({"settings": {"application": {}, "requests": {}}}))
        for number, (path, name, text) in enumerate(results, 1):
            uuid = str(UUID(int=number))
            watch = {"url": origin.url(path), "title": f"Watch {number}", "include_filters": [selector]}
            archive.writestr(f"{uuid}/watch.json", json.dumps(watch))
            if name:
                archive.writestr(f"{uuid}/history.txt", f"1700000000,old.txt\n1764000000,/datastore/{uuid}/{name}\n")
                data = brotli.compress(text.encode()) if name.endswith(".br") else text.encode()
                archive.writestr(f"{uuid}/{name}", data)
    return packed.getvalue()


async def test_old_and_new_results_stand_side_by_side(tmp_path: Path) -> None:
    shop = "<title>Shop</title><nav>Home</nav><h1>Lamp</h1><p class=price>€ 999.00</p><footer>42 visitors</footer>"
    async with (
        Origin() as origin,
        daemon_process(f"sqlite+aiosqlite:///{tmp_path / 'poll.db'}", tmp_path / "log") as daemon,
        aiohttp.ClientSession() as session,
    ):
        await until(lambda: "http://127.0.0.1:" in daemon.log)
        root = re.findall(r"http://127\.0\.0\.1:\d+", daemon.log)[0]
        for path in ("/same", "/other", "/none", "/late"):
            origin.pages[path] = Served(shop)
        results = [
            ("/same", "a.txt.br", "Lamp\n\n   € 999.00\n"),
            ("/other", "b.txt", "Lamp\n€ 1,199.00\n<script>window.hit=1</script>\n"),
            ("/none", "", ""),
            ("/late", "c.txt", "Lamp"),
        ]

        async def compared(run: str, row: int) -> str:
            form = {"row": str(row)}
            async with session.post(f"{root}/sites/import/{run}/compare", data=form, allow_redirects=False) as answer:
                assert (answer.status, answer.headers["Location"]) == (303, f"/sites/import/{run}#entry-{row}")
            async with session.get(f"{root}/sites/import/{run}") as answer:
                page = await answer.text()
            return page[page.index(f'id="entry-{row}"') :].partition("</details></li>")[0]

        async with session.post(f"{root}/sites/import", data=_sent("b.zip", _backup(origin, *results))) as answer:
            page = await answer.text()
        run = _run_id(page)
        assert page.count("Compare the results") == 4
        assert "The result is the same as the one kept there" in await compared(run, 1)
        row = await compared(run, 2)
        assert "<script>" not in row, "a stored text is data"
        row = re.sub("</?mark>", "", row)
        assert 'removed">€ 1,199.00<' in row
        assert 'added">€ 999.00<' in row
        assert "42 visitors" not in row, "only what the site would keep"
        assert "The file holds no result of this entry" in await compared(run, 3)
        asked = len(origin.log)
        assert "pages per minute can be fetched by hand" in await compared(run, 4)
        assert len(origin.log) == asked
        async with session.get(f"{root}/api/v1/sites") as answer:
            assert (await answer.json())["items"] == [], "comparing adds nothing"
        async with session.post(f"{root}/sites/import", data={"run": run}) as answer:
            assert "4 new sites" in await answer.text()
        async with session.post(f"{root}/sites/import/{run}/compare", data={"row": "1"}) as answer:
            assert (answer.status, "choose the file again" in await answer.text()) == (422, True)


def test_a_history_that_cannot_be_read_stops_no_move() -> None:
    packed = io.BytesIO()
    good, no_line, no_file, no_brotli = (str(UUID(int=number)) for number in range(1, 5))
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("changedetection.json", json.dumps({"settings": {}}))
        for uuid in (good, no_line, no_file, no_brotli):
            archive.writestr(f"{uuid}/watch.json", json.dumps({"url": f"https://{uuid}.example/"}))
        archive.writestr(f"{good}/history.txt", "1764000000,b.txt.br\n1763000000,a.txt\n")
        archive.writestr(f"{good}/b.txt.br", brotli.compress("é".encode() * 500_000))
        archive.writestr(f"{no_line}/history.txt", "yesterday\nnan,x.txt\n")
        archive.writestr(f"{no_file}/history.txt", "1764000000,../../etc/passwd\n")
        archive.writestr(f"{no_brotli}/history.txt", "1764000000,c.txt.br\n")
        archive.writestr(f"{no_brotli}/c.txt.br", b"no brotli")
    moved = moved_of_file("changedetection", packed.getvalue())
    assert len(moved.sites) == 4
    ((source, result),) = moved.results.items()
    assert source == moved.sources[0][0]
    assert result.at == 1_764_000_000.0
    assert result.text == "é" * len(result.text)
    assert 1_000 < len(result.text) <= RESULT_CHARACTERS
