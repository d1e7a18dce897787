"""Every way in keeps the settings that it does not name: all settings of sites and tags, by each way in.

The settings are those that REST declares, so that a new one is tried as soon as it has a value here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict as fields_of
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp
import lxml.html
import orjson
import pytest
from aiohttp import FormData
from msgspec.structs import asdict
from typer.testing import CliRunner

from pollerd.api.inputs import SettingsFields
from pollerd.api.sites import NewSite, SitePatch
from pollerd.api.tags import NewTag, TagPatch
from pollerd.app.url_list import read_list
from pollerd.cli import setting_options
from pollerd.cli.commands import app
from pollerd.site_settings import ACCESS_SETTINGS, SITE_SETTINGS, SiteSpec
from pollerd.web.application import add_pages
from tests.api.conftest import Api
from tests.api.test_transfer import PASSPHRASE, get, put

URL = "https://a.invalid/"
_OFFICE = {"zone": "Europe/Berlin", "open": [{"days": ["mon", "tue"], "from": "08:00", "to": "18:00"}]}
_NIGHT = {"zone": "UTC", "open": [{"days": ["sun"], "from": "22:00", "to": "04:00"}]}

OF_TAGS: Mapping[str, tuple[Any, Any]] = {
    "headers": ({"X-Key": "hush"}, {"X-Other": "hush2"}),
    "credentials": ({"username": "me", "password": "hush"}, {"token": "hush2"}),
    "proxy": ("http://me:hush@proxy.invalid:3128", "http://other.invalid:3128"),
    "body": ("q=hush", "q=2"),
    "method": ("POST", "GET"),
    "pdf_password": ("hush", "hush2"),
    "weight": (1.23456789, 2.0),
    "cost": (3.0000001, 4.0),
    "min_interval": (901.25, 950.0),
    "max_interval": (90_061.5, 90_100.0),
    "min_saving": (45.25, 60.0),
    "min_yield": (0.0123, 0.02),
    "respect_ttl": (True, False),
    "half_life": (5_401.0, 60.0),
    "deadline": (61.5, 120.0),
    "windows": (_OFFICE, _NIGHT),
    "selections": (
        {"default": {"steps": [{"keep": {"css": "main"}}, {"lines": {"drop": [{"text": "two  spaces"}]}}]}},
        {"default": {"steps": [{"keep": {"css": "h1"}}]}},
    ),
    "render": ({"steps": [{"type": "#password", "secret": "hush"}]}, "browser"),
    "keep_screenshots": (True, False),
}
"""Setting -> its value before, and another."""
OF_SITES: Mapping[str, tuple[Any, Any]] = {
    **OF_TAGS,
    "url": (URL, f"{URL}moved"),
    "title": ("A, B & <C>", "D"),
    "tags": (["a, b", "club"], ["club", "news"]),
}
BEFORE = {name: before for name, (before, _) in OF_SITES.items()}
TAG_BEFORE = {name: before for name, (before, _) in OF_TAGS.items()}
NULLABLE = [name for name in OF_TAGS if name not in ("method", "headers")]
STORED = {"method": {"body"}, "render": {"render", "typed"}}
"""Setting -> the stored fields that it is; others have one of their own name."""


def said(spec: SiteSpec) -> dict[str, Any]:
    """All that is stored of a site's settings."""
    return {**asdict(spec), "access": None, **fields_of(spec.access)}


async def site_of(api: Api) -> dict[str, Any]:
    (site,) = (await api.store.sites.page()).items
    return said(site.spec)


def tag_of(api: Api, name: str = "shop") -> dict[str, Any]:
    tag = api.store.sites.tags.in_force[name]
    return {**dict.fromkeys(OF_TAGS), **tag.settings, **fields_of(tag.access)}


def assert_only(after: dict[str, Any], before: dict[str, Any], *named: str) -> None:
    """Nothing differs but what was named, and that does."""
    differing = {name for name in before if before[name] != after[name]}
    assert differing == {field for name in named for field in STORED.get(name, {name})}


async def ran(api: Api, *words: str) -> str:
    """The command against that daemon, in a thread."""
    result = await asyncio.to_thread(CliRunner().invoke, app, [*words, "--url", api.root])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
async def full(api: Api) -> Api:
    """With a site that says every setting."""
    await api.add(**BEFORE)
    return api


@pytest.fixture
async def tagged(api: Api) -> Api:
    """With a tag that says every setting."""
    assert (await api("PUT", "/tags/shop", TAG_BEFORE)).status == 200
    return api


def test_every_setting_has_values_here() -> None:
    no_setting = {"rebase"}
    assert set(OF_TAGS) == set(SettingsFields.model_fields)
    assert set(OF_TAGS) == set(NewTag.model_fields) - no_setting == set(TagPatch.model_fields) - no_setting
    assert set(OF_SITES) == set(SitePatch.model_fields) - no_setting == set(NewSite.model_fields)


@pytest.mark.parametrize("name", OF_SITES)
async def test_a_patch_of_a_site_changes_what_it_names(full: Api, name: str) -> None:
    before = await site_of(full)
    assert (await full("PATCH", "/sites/1", {name: OF_SITES[name][1]})).status == 200
    assert_only(await site_of(full), before, name)


@pytest.mark.parametrize("name", NULLABLE)
async def test_null_takes_one_setting_of_a_site_away(full: Api, name: str) -> None:
    before = await site_of(full)
    named = ("render", "keep_screenshots") if name == "render" else (name,)  # which only a rendered site can have
    assert (await full("PATCH", "/sites/1", dict.fromkeys(named))).status == 200
    assert_only(await site_of(full), before, *named)


@pytest.mark.parametrize("name", OF_TAGS)
async def test_a_patch_of_a_tag_changes_what_it_names(tagged: Api, name: str) -> None:
    before = tag_of(tagged)
    assert (await tagged("PATCH", "/tags/shop", {name: OF_TAGS[name][1]})).status == 200
    assert_only(tag_of(tagged), before, name)


@pytest.mark.parametrize("name", NULLABLE)
async def test_null_takes_one_setting_of_a_tag_away(tagged: Api, name: str) -> None:
    before = tag_of(tagged)
    assert (await tagged("PATCH", "/tags/shop", {name: None})).status == 200
    assert_only(tag_of(tagged), before, name)


async def test_the_cost_of_rendering_goes_with_the_plan(api: Api) -> None:
    assert (await api("PATCH", "/tags/shop", {"render": "browser"})).json["cost"] == 20.0
    assert (await api("PATCH", "/tags/shop", {"weight": 2})).json["cost"] == 20.0
    found = (await api("PATCH", "/tags/shop", {"render": None})).json
    assert (found["cost"], found["render"], found["weight"]) == (None, None, 2.0)


async def test_an_unreadable_tag_is_not_patched(tagged: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = {"shop": type(tagged.store.sites.tags.in_force["shop"])("shop", fault="it cannot be read")}
    monkeypatch.setattr(tagged.control.tags, "all", lambda: broken)
    reply = await tagged("PATCH", "/tags/shop", {"weight": 2})
    assert (reply.status, reply.json["errors"][0]["field"]) == (422, "name")
    assert "PUT replaces them" in reply.json["errors"][0]["allowed"]


EDITS: Mapping[str, tuple[str, ...]] = {
    "weight": ("--weight", "2"),
    "cost": ("--cost", "4"),
    "min_interval": ("--min-interval", "950s"),
    "max_interval": ("--max-interval", "90100s"),
    "min_saving": ("--min-saving", "1m"),
    "min_yield": ("--min-yield", "2%"),
    "half_life": ("--half-life", "1m"),
    "deadline": ("--deadline", "2m"),
    "windows": ("--windows", orjson.dumps(_NIGHT).decode()),
    "selections": ("--select", "css=h1"),
    "respect_ttl": ("--respect-ttl", "off"),
    "render": ("--render", "browser"),
    "keep_screenshots": ("--keep-screenshots", "false"),
    "headers": ("--headers", '{"X-Other": "hush2"}'),
    "credentials": ("--credentials", '{"token": "hush2"}'),
    "proxy": ("--proxy", "http://other.invalid:3128"),
    "body": ("--body", "q=2"),
    "pdf_password": ("--pdf-password", "hush2"),
}
"""Options of `sites edit` and `tags set`, with the second value of each setting."""


@pytest.mark.parametrize("name", EDITS)
async def test_sites_edit_changes_what_it_names(full: Api, name: str) -> None:
    before = await site_of(full)
    await ran(full, "sites", "edit", "1", *EDITS[name])
    assert_only(await site_of(full), before, name)
    named = ("render", "keep_screenshots") if name == "render" else (name,)  # which only a rendered site can have
    await ran(full, "sites", "edit", "1", *(word for one in named for word in (EDITS[one][0], "none")))
    assert_only(await site_of(full), before, *named)


def test_commands_have_every_setting() -> None:
    """`method` follows from the body, and tags and the URL of a site have options and arguments of their own."""
    assert set(EDITS) == set(OF_TAGS) - {"method"}
    assert {name for name, one in setting_options.OF_TAGS.items() if one.cli} == set(EDITS)
    assert {name for name, one in setting_options.OF_SITES.items() if one.cli} == {*EDITS, "title"}


async def test_sites_add_takes_every_setting(api: Api, tmp_path: Path) -> None:
    secret = tmp_path / "body"
    secret.write_text("q=2\n")
    options = [word for name in EDITS for word in EDITS[name]]
    options[options.index("q=2")] = f"@{secret}"
    await ran(api, "sites", "add", URL, "--tag", "club", "--title", "D", *options)
    added = await site_of(api)
    after = {name: OF_SITES[name][1] for name in EDITS}
    await api("DELETE", "/sites/1")
    await api.add(url=URL, tags=["club"], title="D", **after)
    assert added == await site_of(api)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--weight", "much"), "must be a number"),
        (("--keep-screenshots", "perhaps"), "must be true or false"),
        (("--headers", "[1, hush]"), "must be a JSON object"),
        (("--credentials", '"hush"'), "must be a JSON object"),
        (("--proxy", "@missing"), "there is no file missing"),
        (("--render", "{"), "not valid JSON"),
    ],
)
def test_an_option_that_cannot_be_is_refused_before_the_daemon_is_called(words: tuple[str, str], reason: str) -> None:
    result = CliRunner().invoke(app, ["sites", "edit", "1", *words], env={"COLUMNS": "300"})
    assert (result.exit_code, reason in result.output, "hush" in result.output) == (2, True, False), result.output


@pytest.mark.parametrize("words", [("--add-tag", "x"), ("--remove-tag", "club"), ("--tag", "x")])
async def test_sites_edit_of_tags_keeps_the_rest(full: Api, words: tuple[str, str]) -> None:
    before = await site_of(full)
    await ran(full, "sites", "edit", "1", *words)
    assert_only(await site_of(full), before, "tags")


@pytest.mark.parametrize("name", EDITS)
async def test_tags_set_changes_what_it_names(tagged: Api, name: str) -> None:
    before = tag_of(tagged)
    await ran(tagged, "tags", "set", "shop", *EDITS[name])
    assert_only(tag_of(tagged), before, name)
    await ran(tagged, "tags", "set", "shop", EDITS[name][0], "none")
    assert_only(tag_of(tagged), before, name)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("tag", "x"), ("tags",)),
        (("untag", "club"), ("tags",)),
        (("weight", "2"), ("weight",)),
        (("weight", "none"), ("weight",)),
        (("limits", "--min-interval", "950s"), ("min_interval",)),
        (("limits", "--max-interval", "none"), ("max_interval",)),
        (("pause",), ("paused",)),
    ],
)
async def test_bulk_changes_what_it_names_and_undo_takes_only_that_back(
    full: Api, words: tuple[str, ...], named: tuple[str, ...]
) -> None:
    before = await site_of(full)
    body: dict[str, Any] = {"action": words[0], "ids": [1]}
    options = dict(zip(words[1::2], words[2::2], strict=False)) if words[0] == "limits" else {}
    match words[0]:
        case "tag" | "untag":
            body["value"] = {"tag": words[1]}
        case "weight":
            body["value"] = {"weight": None if words[1] == "none" else float(words[1])}
        case "limits":
            value = next(iter(options.values()))
            body["value"] = {named[0]: None if value == "none" else value}
    job = (await full("POST", "/sites/bulk", body)).json
    await _ended(full, job["id"])
    assert_only(await site_of(full), before, *named)
    assert (await full("PATCH", "/sites/1", {"title": "between"})).status == 200
    await full("POST", f"/jobs/{job['id']}/undo")
    await _ended(full, job["id"], "undone")
    assert_only(await site_of(full), before, "title")


async def _ended(api: Api, job_id: int, state: str = "done") -> None:
    async with asyncio.timeout(60):
        while (await api("GET", f"/jobs/{job_id}")).json["state"] != state:
            await asyncio.sleep(0.02)


Fields = list[tuple[str, str]]
"""Fields of a form as a browser sends them, by name and value."""


async def _forms(api: Api) -> dict[str, Fields]:
    """The forms of a site's page that change its settings, by their address."""
    async with api.session.get(f"{api.root}/sites/1") as answer:
        page = lxml.html.document_fromstring(await answer.text())
    for field in page.xpath("//input[not(@value)]"):
        field.set("value", "")  # browsers send these, too
    return {
        form.action: [(name, value.replace("\n", "\r\n")) for name, value in form.form_values()]
        for form in page.forms
        if form.action in FORM_OF.values()
    }


async def _post(api: Api, address: str, fields: Fields) -> None:
    async with api.session.post(api.root + address, data=FormData(fields), allow_redirects=False) as answer:
        assert answer.status == 303, await answer.text()


SITE, WHEN, COUNTS = "/sites/1", "/sites/1/when", "/sites/1/counts"
FORM: dict[str, dict[str, str]] = {
    **{
        name: {name: text}
        for name, text in {
            "url": f"{URL}moved",
            "title": "D",
            "tags": "club, news",
            "weight": "2",
            "cost": "4",
            "min_interval": "950",
            "max_interval": "",
            "min_saving": "1m",
            "min_yield": "2%",
            "respect_ttl": "off",
            "half_life": "1m",
            "deadline": "",
            "keep_screenshots": "false",
        }.items()
    },
    "windows": {"hours_from": "22:00", "hours_to": "04:00"},
    "render": {"render": "", "keep_screenshots": ""},  # only a rendered site has screenshots
    "selections": {"json": '{"default": {"steps": [{"keep": {"css": "h1"}}]}}'},
}
"""Setting -> the fields that change it."""
FORM_OF = {name: SITE if name in ("url", "title", "tags") else WHEN for name in FORM} | {"selections": COUNTS}


def test_the_web_forms_have_every_setting_but_secrets() -> None:
    assert set(FORM) == {name for name, setting in SITE_SETTINGS.items() if setting.form}
    assert set(FORM) == set(OF_SITES) - {*ACCESS_SETTINGS, "method"}


@pytest.mark.parametrize("name", [None, *FORM])
async def test_the_web_forms_change_what_is_edited(full: Api, name: str | None) -> None:
    add_pages(full.app)
    before, forms = await site_of(full), await _forms(full)
    assert forms.keys() == {SITE, WHEN, COUNTS}
    edits = FORM[name] if name else {}
    named = {name, *(edits.keys() & FORM.keys())} if name else set()
    for address, fields in forms.items():
        edited = edits if name and address == FORM_OF[name] else {}
        assert edited.keys() <= {field for field, _ in fields}
        await _post(full, address, [(field, edited.get(field, text)) for field, text in fields])
    assert_only(await site_of(full), before, *named)
    if edits.keys() == {name}:
        await _post(full, SITE, list(edits.items()))  # and where nothing else is sent
        assert_only(await site_of(full), before, *named)


async def test_the_form_of_tags_with_commas(full: Api) -> None:
    add_pages(full.app)
    fields = (await _forms(full))[SITE]
    await _post(full, SITE, [(name, text + " x;" if name == "tags" else text) for name, text in fields])
    assert (await site_of(full))["tags"] == ("a, b", "club", "x")


Take = Callable[[Api, Path], Awaitable[None]]


async def _list_of_urls(api: Api, directory: Path) -> None:
    await _read(api, directory / "list.txt", URL.encode(), sync=False)


async def _list_with_other_settings(api: Api, directory: Path) -> None:
    other = {"url": URL, "weight": 9, "title": "other", "cost": 9, "tags": ["other"]}
    await _read(api, directory / "list.jsonl", orjson.dumps(other), sync=False)


async def _whole_list(api: Api, directory: Path) -> None:
    given = {**BEFORE, "method": None}
    await _read(api, directory / "list.jsonl", orjson.dumps(given), sync=True)
    document = orjson.dumps({"sites": [given]})  # JSON is YAML
    await _read(api, directory / "list.yaml", document, sync=True)


async def _import(api: Api, directory: Path) -> None:
    line = orjson.dumps({"url": URL, "weight": 9})
    reply = await api("POST", "/sites/import?format=jsonl", data=line)
    assert (reply.status, reply.json["existing"]) == (200, 1)


async def _import_by_command(api: Api, directory: Path) -> None:
    (directory / "list.yaml").write_text(f"sites: [{{url: '{URL}', weight: 9}}]\ntags: {{shop: {{weight: 9}}}}\n")
    await ran(api, "sites", "import", str(directory / "list.yaml"))


async def _export_and_back(api: Api, directory: Path) -> None:
    for passphrase in (None, PASSPHRASE):
        reply = await put(api, await get(api, passphrase), passphrase)
        assert reply.json["complete"], reply.body


async def _read(api: Api, path: Path, text: bytes, *, sync: bool) -> None:
    await read_list(path, api.control, sync=sync, file=BytesIO(text))


@pytest.mark.parametrize(
    "take", [_list_of_urls, _list_with_other_settings, _whole_list, _import, _import_by_command, _export_and_back]
)
async def test_lists_imports_and_exports_keep_a_site(full: Api, tmp_path: Path, take: Take) -> None:
    before = await site_of(full)
    await take(full, tmp_path)
    assert_only(await site_of(full), before)


async def _tags_of_list(api: Api, directory: Path) -> None:
    await _read(api, directory / "list.yaml", b"tags: {shop: {weight: 9}, other: {weight: 1}}", sync=False)


async def _tags_of_whole_list(api: Api, directory: Path) -> None:
    document = orjson.dumps({"tags": {"shop": {**TAG_BEFORE, "method": None}}})
    await _read(api, directory / "list.yaml", document, sync=True)


async def _list_without_tags(api: Api, directory: Path) -> None:
    await _read(api, directory / "list.csv", f"url,weight\n{URL},2\n".encode(), sync=True)


@pytest.mark.parametrize(
    "take", [_tags_of_list, _tags_of_whole_list, _list_without_tags, _import_by_command, _export_and_back]
)
async def test_lists_imports_and_exports_keep_a_tag(tagged: Api, tmp_path: Path, take: Take) -> None:
    before = tag_of(tagged)
    await take(tagged, tmp_path)
    assert_only(tag_of(tagged), before)


async def test_a_tag_that_is_read_and_put_back_keeps_its_settings(api: Api) -> None:
    given = {**TAG_BEFORE, "render": {"steps": [{"wait": 1}]}}
    assert (await api("PUT", "/tags/shop", given)).status == 200
    before = tag_of(api)
    shown = (await api("GET", "/tags/shop")).json
    reply = await api("PUT", "/tags/shop", {name: shown[name] for name in TagPatch.model_fields if name in shown})
    assert reply.status == 200, reply.body
    assert_only(tag_of(api), before, "proxy")  # which is shown without user name and password


@pytest.mark.parametrize("name", OF_SITES)
async def test_exports_of_the_site_say_every_setting(full: Api, name: str) -> None:
    """What the list of `GET /sites/export` holds is what the site says, but for secrets."""
    before = await site_of(full)
    async with aiohttp.ClientSession() as session:
        for form in ("jsonl", "csv", "opml"):
            async with session.get(f"{full.root}/api/v1/sites/export?format={form}") as answer:
                text = await answer.read()
            diff = (await full("POST", f"/sites/diff?sync=true&format={form}", data=text)).json
            secret = {"headers", "credentials", "proxy", "body", "typed", "pdf_password"}
            differing = {field["field"] for site in diff["changed"] for field in site["fields"]}
            assert differing <= secret, (form, differing)
    assert_only(await site_of(full), before)
