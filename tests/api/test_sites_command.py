"""`pollerd sites` against a served API."""

from __future__ import annotations

import asyncio
import json
import socket
import textwrap
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from pollerd.api.settings import ApiSettings
from pollerd.cli.commands import sites as app
from tests.api.conftest import Api, NewApi

URL = "https://example.org/news"
Run = Callable[..., Awaitable[Result]]


@pytest.fixture
def run(api: Api, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`await run("list", "--json")` runs the command against the API."""
    monkeypatch.setenv("POLLERD_URL", api.root + "/")
    return invoke


async def invoke(*words: str, stdin: bytes | None = None) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, app, list(words), input=stdin)


async def test_sites_are_added_listed_shown_and_removed(run: Run, api: Api) -> None:
    added = await run("add", URL, "https://b.org", "--weight", "2", "--tag", "x", "--tag", "y", "--max-interval", "60")
    assert added.exit_code == 0, added.output
    sites = json.loads((await run("list", "--json")).stdout)
    assert [(s["url"], s["weight"], s["tags"], s["max_interval"]) for s in sites] == [
        (URL, 2.0, ["x", "y"], 60.0),
        ("https://b.org/", 2.0, ["x", "y"], 60.0),
    ]
    lines = (await run("list", "--tag", "x", "--q", "b.org")).stdout.splitlines()
    assert [line.split("\t")[:3] for line in lines] == [
        ["id", "state", "url"],
        [str(sites[1]["id"]), "active", "https://b.org/"],
    ]
    shown = json.loads((await run("show", URL, "--json")).stdout)
    assert (shown["id"], shown["explain"]["site_id"]) == (sites[0]["id"], sites[0]["id"])
    plain = dict(line.split("\t") for line in (await run("show", str(shown["id"]))).stdout.splitlines())
    assert (plain["url"], plain["allocator"]) == (URL, "whittle")
    removed = await run("remove", URL, str(sites[1]["id"]))
    assert removed.exit_code == 0, removed.output
    assert (await run("list")).stdout.count("\n") == 1, "the header alone"


async def test_a_fragment_that_is_left_out_is_named(run: Run) -> None:
    left_out = await run("add", f"{URL}#/route")
    assert "#/route was removed" in left_out.stderr
    kept = await run("add", f"{URL}#/route", "--render", "browser")
    assert (kept.exit_code, kept.stderr) == (0, "")
    sites = json.loads((await run("list", "--json")).stdout)
    assert [site["url"] for site in sites] == [URL, f"{URL}#/route"]
    shown = json.loads((await run("show", f"{URL}#/route", "--json")).stdout)
    assert shown["id"] == sites[1]["id"]


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "opml", "txt"])
async def test_what_is_exported_can_be_imported(run: Run, api: Api, tmp_path: Path, suffix: str) -> None:
    await run("add", URL, "--tag", "x", "--min-interval", "5", "--weight", "3")
    await run("add", "https://b.org/?a=1,2")
    before = json.loads((await run("list", "--json")).stdout)
    file = tmp_path / f"sites.{suffix}"
    assert (await run("export", str(file))).exit_code == 0
    await run("remove", URL, "https://b.org/?a=1,2")
    imported = await run("import", str(file))
    assert (imported.exit_code, imported.stdout) == (0, "2 added, 0 existed already, 0 rejected\n")
    after = json.loads((await run("list", "--json")).stdout)
    kept = ("url",) if suffix == "txt" else ("url", "weight", "cost", "tags", "min_interval", "max_interval")
    assert [[s[name] for name in kept] for s in after] == [[s[name] for name in kept] for s in before]


async def test_standard_input_and_output(run: Run) -> None:
    imported = await run("import", "-", stdin=b"https://a.org/\nnonsense\n")
    assert imported.exit_code == 1
    assert "line 2: url:" in imported.stderr
    assert imported.stdout == "1 added, 0 existed already, 1 rejected\n"
    assert (await run("export")).stdout == "https://a.org/\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("add", "nonsense"), "url: must be"),
        (("add", URL, "--weight", "-1"), "weight: must be"),
        (("show", "77"), "no such site: 77"),
        (("remove", "https://nowhere.org"), "no such site: https://nowhere.org/"),
        (("show", "nonsense"), "url: must be"),
        (("list", "--url", "127.0.0.1:8080"), "--url: must be an address such as http://"),
        (("export", "/nowhere/sites.csv"), "there is no folder /nowhere"),
    ],
)
async def test_mistakes_end_with_one_clear_line(run: Run, words: tuple[str, ...], told: str) -> None:
    result = await run(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert told in result.stderr
    assert result.stderr.count("\n") == 1


async def test_no_daemon_answers(run: Run) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        result = await run("list", "--url", url)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"pollerd: no daemon answers at {url}: ")


async def test_a_token_is_asked_for_and_given(new_api: NewApi, monkeypatch: pytest.MonkeyPatch) -> None:
    guarded = await new_api(ApiSettings.listening("127.0.0.1:0", token="full", read_token="read"))
    without = await invoke("list", "--url", guarded.root)
    assert (without.exit_code, "POLLERD_TOKEN" in without.stderr) == (2, True)
    assert (await invoke("add", URL, "--url", guarded.root, "--token", "full")).exit_code == 0
    monkeypatch.setenv("POLLERD_TOKEN", "read")
    assert URL in (await invoke("list", "--url", guarded.root)).stdout
    refused = await invoke("remove", URL, "--url", guarded.root)
    assert (refused.exit_code, "does not allow to write" in refused.stderr) == (2, True)


async def test_sites_are_paused_resumed_and_polled(run: Run, api: Api) -> None:
    ids = [str(await api.add(URL)), str(await api.add("https://b.org"))]
    paused = json.loads((await run("pause", ids[0], "https://b.org", "--json")).stdout)
    assert [(site["id"], site["state"]) for site in paused] == [(int(i), "paused") for i in ids]
    resumed = await run("resume", *ids)
    assert [line.split("\t")[:2] for line in resumed.stdout.splitlines()[1:]] == [[i, "active"] for i in ids]
    assert (await run("poll", *ids)).exit_code == 0


async def test_one_that_is_refused_stops_no_other(run: Run, api: Api) -> None:
    site_id = await api.add(URL)
    result = await run("pause", "77", "nonsense", URL, "--json")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[0] == "pollerd: no such site: 77"
    assert "url: must be" in result.stderr.splitlines()[1]
    assert [site["id"] for site in json.loads(result.stdout)] == [site_id]
    nobody = await run("pause", "77", "--json")
    assert (nobody.exit_code, nobody.stdout) == (2, "")
    removed = await run("remove", "77", URL)
    assert (removed.exit_code, removed.stdout) == (2, f"removed {site_id}\n")


async def test_sites_are_edited(run: Run, api: Api) -> None:
    ids = [str(await api.add(url, tags=["x"], half_life=60)) for url in (URL, "https://b.org")]
    flags = (
        "--weight",
        "2",
        "--cost",
        "3",
        "--add-tag",
        "y",
        "--min-interval",
        "5m",
        "--max-interval",
        "1.5h",
        "--min-yield",
        "2%",
    )
    edited = json.loads((await run("edit", *ids, *flags, "--half-life", "none", "--json")).stdout)
    wanted = ("weight", "cost", "tags", "min_interval", "max_interval", "min_yield", "half_life")
    assert [[site[name] for name in wanted] for site in edited] == [
        [2.0, 3.0, ["x", "y"], 300.0, 5400.0, 0.02, None]
    ] * 2
    table = (await run("edit", URL, "--remove-tag", "x", "--tag", "z")).stderr
    assert "--tag sets all tags" in table
    header, row = (await run("edit", URL, "--remove-tag", "x")).stdout.splitlines()
    shown = dict(zip(header.split("\t"), row.split("\t"), strict=True))
    assert (shown["tags"], shown["min_interval"], shown["max_interval"], shown["half_life"]) == ("y", "5m", "1.5h", "")
    moved = json.loads((await run("edit", ids[1], "--new-url", "https://c.org", "--tag", "q", "--json")).stdout)
    assert (moved[0]["url"], moved[0]["tags"]) == ("https://c.org/", ["q"])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("edit", "1"), "nothing to change"),
        (("edit", "1", "2", "--new-url", "https://c.org"), "--new-url moves one site"),
        (("edit", "1", "--min-interval", "often"), "'often'"),
        (("add", URL, "--min-interval", "5 weeks"), "'5 weeks'"),
        (("list", "--timeout", "never"), "'never'"),
        (("export", "sites.yml2"), "a name that ends with .txt, .csv, .jsonl, .ndjson, .opml, or use --format"),
        (("import", "pyproject.toml2"), "there is no file"),
    ],
)
async def test_refusals_name_what_is_allowed(run: Run, words: tuple[str, ...], told: str) -> None:
    result = await run(*words)
    assert result.exit_code == 2
    assert told in " ".join(result.stderr.replace("│", " ").split())


async def test_a_list_under_an_unknown_suffix_is_not_imported(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "sites.xls"
    file.write_text("https://a.org/\n")
    refused = await run("import", str(file))
    assert (refused.exit_code, ".opml" in refused.stderr) == (2, True)
    assert (await run("import", str(file), "--format", "text")).exit_code == 0
    plain = tmp_path / "sites"
    plain.write_text("https://b.org/\n")
    assert (await run("import", str(plain))).exit_code == 0


@pytest.mark.parametrize("form", ["text", "csv", "jsonl"])
async def test_a_long_list_goes_in_blocks_and_keeps_its_line_numbers(
    run: Run, api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setattr("pollerd.cli.lists.BLOCK_LINES", 7)
    urls = [f"https://a.org/{n}" for n in range(40)]
    urls[20] = "nonsense"
    if form == "jsonl":
        lines = [json.dumps({"url": url, "weight": 2}) for url in urls]
    else:
        lines = ["", "weight,url", *(f"2,{url}" for url in urls)] if form == "csv" else urls
    file = tmp_path / "list"
    file.write_text("\n".join(lines))
    result = json.loads((await run("import", str(file), "--format", form, "--json")).stdout)
    assert (result["added"], result["existing"], result["rejected_count"]) == (39, 0, 1)
    assert result["rejected"][0]["line"] == (23 if form == "csv" else 21)
    sites = json.loads((await run("list", "--json")).stdout)
    assert {site["weight"] for site in sites} == {1.0 if form == "text" else 2.0}


DOCUMENTS = {
    "toml": """
        [defaults]
        weight = 2
        [[sites]]
        url = "https://a.org/"
        [[sites]]
        url = "https://b.org/"
        weight = 3
        credentials = {token_file = "b.token"}
        [[sites]]
        weight = 4
        [[sites]]
        url = "https://c.org/"
        proxy_file = "missing"
    """,
    "yaml": """
        defaults: {weight: 2}
        sites:
          - https://a.org/
          - {url: "https://b.org/", weight: 3, credentials: {token_file: b.token}}
          - weight: 4
          - {url: "https://c.org/", proxy_file: missing}
    """,
}


@pytest.mark.parametrize("form", DOCUMENTS)
@pytest.mark.parametrize("by_name", [True, False])
async def test_documents_are_read_as_run_reads_them(
    run: Run, api: Api, tmp_path: Path, form: str, by_name: bool
) -> None:
    (tmp_path / "b.token").write_text("secret\n")
    file = tmp_path / (f"list.{form}" if by_name else "list")
    file.write_text(textwrap.dedent(DOCUMENTS[form]))
    imported = await run("import", str(file), *(() if by_name else ("--format", form)))
    assert (imported.exit_code, imported.stdout) == (1, "2 added, 0 existed already, 2 rejected\n")
    assert "entry 3: url:" in imported.stderr
    assert "entry 4: proxy_file: there is no file" in imported.stderr
    assert "keeps its settings" not in imported.stderr
    sites = {site["url"]: site for site in json.loads((await run("list", "--json")).stdout)}
    assert {url: site["weight"] for url, site in sites.items()} == {"https://a.org/": 2.0, "https://b.org/": 3.0}
    assert [site["has_credentials"] for site in sites.values()] == [False, True]


async def test_an_import_leaves_settings_alone_and_says_so(run: Run, api: Api, tmp_path: Path) -> None:
    await api.add("https://a.org/", weight=7)
    file = tmp_path / "list.toml"
    file.write_text("sites = [{url = 'https://a.org/', weight = 2}]")
    imported = await run("import", str(file))
    assert (imported.exit_code, imported.stdout) == (0, "0 added, 1 existed already, 0 rejected\n")
    assert "keeps its settings: `pollerd sites diff FILE --sync` shows" in imported.stderr
    assert json.loads((await run("list", "--json")).stdout)[0]["weight"] == 7.0
    plain = tmp_path / "list"
    plain.write_text("https://a.org/\n")
    assert (await run("import", str(plain))).stderr == ""


async def test_an_import_names_the_channels_and_rules_that_it_does_not_read(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "list.toml"
    hook = "{name = 'hook', kind = 'webhook', settings = {url = 'https://a.org/h'}}"
    file.write_text(f"sites = ['https://a.org/']\nchannels = [{hook}]\nrules = [{{name = 'all', channels = ['hook']}}]")
    imported = await run("import", str(file))
    assert (imported.exit_code, imported.stdout) == (0, "1 added, 0 existed already, 0 rejected\n")
    assert "not read: channel hook, rule all" in imported.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [("budget = 5\nsites = []", "unknown budget; known: defaults, tags, sites"), ("sites = [", "no TOML")],
)
async def test_a_document_that_says_more_or_nothing_adds_nothing(
    run: Run, tmp_path: Path, text: str, said: str
) -> None:
    file = tmp_path / "list.toml"
    file.write_text(text)
    refused = await run("import", str(file))
    assert refused.exit_code == 2
    assert said in refused.stderr


async def test_what_no_json_line_can_hold_is_refused_alone(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "list.yaml"
    file.write_text(
        "sites:\n  - {url: https://a.org/, tags: {2001-01-01: hunter2}}\n"
        "  - {url: https://b.org/, weight: .nan}\n  - https://c.org/\n"
    )
    imported = await run("import", str(file))
    assert (imported.exit_code, imported.stdout) == (1, "1 added, 0 existed already, 2 rejected\n")
    assert "entry 1: site: must be texts" in imported.stderr
    assert "hunter2" not in imported.output
    assert (await run("diff", str(file))).exit_code == 2


async def test_so_many_bad_entries_stop_a_document(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "list.yaml"
    file.write_text("sites: [7, https://a.org/, nonsense, https://b.org/, https://c.org/]")
    stopped = await run("import", str(file), "--max-rejected", "2")
    assert stopped.stdout == "1 added, 0 existed already, 2 rejected\n"
    assert "stopped: 2 bad entries: read up to entry 3, no further; sites already added were kept" in stopped.stderr
    assert "entry 1: site:" in stopped.stderr
    assert "entry 3: url:" in stopped.stderr
    assert (await run("import", str(file), "--max-rejected", "1")).stdout == "0 added, 0 existed already, 1 rejected\n"


async def test_durations_in_tables(run: Run, api: Api) -> None:
    site_id = await api.add(URL, min_interval=90, max_interval=86400 * 2)
    header, *rows = (await run("show", str(site_id))).stdout.splitlines()
    assert header == "field\tvalue"
    shown = dict(row.split("\t") for row in rows)
    assert (shown["min_interval"], shown["max_interval"]) == ("1.5m", "2d")


async def test_how_far_a_ttl_is_believed_is_said_in_words(run: Run, api: Api) -> None:
    await run("add", URL, "--respect-ttl", "hint")
    (site,) = json.loads((await run("list", "--json")).stdout)
    assert site["respect_ttl"] == "hint"
    for word, shown in (("strict", True), ("off", False), ("none", None), ("true", True)):
        edited = await run("edit", URL, "--respect-ttl", word, "--json")
        assert edited.exit_code == 0, edited.output
        assert (await api("GET", f"/sites/{site['id']}")).json["respect_ttl"] is shown
    refused = await run("edit", URL, "--respect-ttl", "perhaps")
    assert refused.exit_code == 2
    for word, read in (("hint", "hint"), ("none", None), ("off", False)):
        done = await run("bulk", "limits", "--all", "--respect-ttl", word)
        assert done.exit_code == 0, done.output
        assert (await api("GET", f"/sites/{site['id']}")).json["respect_ttl"] == read
    jobs = (await api("GET", "/jobs")).json["items"]
    assert [job["value"] for job in jobs] == [{"respect_ttl": read} for read in (False, None, "hint")]
    await api("POST", f"/jobs/{jobs[0]['id']}/undo")
    assert (await api("GET", f"/sites/{site['id']}")).json["respect_ttl"] is None
