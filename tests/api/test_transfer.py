"""All that a user set, out of one daemon and into a fresh one: over REST and by the command, on both databases."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest
import typer
from prometheus_client import CollectorRegistry
from typer.testing import CliRunner, Result

from pollerd.api.application import create_api
from pollerd.api.settings import ApiSettings
from pollerd.api.transfer.document import Vault
from pollerd.app.build import LiveSettings, live_daemon
from pollerd.cli.transfer import export, import_
from pollerd.site_settings import SiteSpec
from pollerd.storage.keys import new_key
from pollerd.storage.settings import StorageSettings
from pollerd.storage.store import Store
from pollerd.telemetry import Instruments
from tests.api.conftest import Api, NewApi, Reply, served
from tests.support.collections import fill
from tests.support.postgres import postgres_database

A, B, C, D = (f"https://{name}.invalid/" for name in "abcd")
PASSPHRASE = "correct horse ürst"
SECRET = {
    "headers": {"Cookie": "id=hush"},
    "credentials": {"username": "me", "password": "hush"},
    "proxy": "http://me:hush@proxy.invalid:3128",
}

RENDERED: dict[str, Any] = {
    "credentials": {"token": "hush"},
    "title": "See",
    "body": "q=hush",
    "pdf_password": "hush",
    "render": {"steps": [{"type": "#password", "secret": "hush"}]},
    "selections": {"default": {"steps": [{"keep": {"css": "main"}}]}},
}


@contextlib.asynccontextmanager
async def daemon_at(database: str, settings: ApiSettings | None = None) -> AsyncIterator[Api]:
    """An API over a daemon that does not poll, on a database of its own."""
    async with contextlib.AsyncExitStack() as stack:
        store = await Store.open(database, settings=StorageSettings(secret_key=new_key()))
        stack.push_async_callback(store.close)
        registry = CollectorRegistry()
        instruments, rng = Instruments(registry, "1.2.3"), np.random.default_rng(1)
        daemon = await stack.enter_async_context(live_daemon(store, LiveSettings(), instruments, rng))
        app = create_api(daemon.control, store, registry, settings or ApiSettings(), "1.2.3")
        root = await stack.enter_async_context(served(app))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        yield Api(root, store, daemon.control, session, app.state.streams, app.state.tokens, app)


@pytest.fixture(params=["sqlite", "postgres"])
def two_databases(request: pytest.FixtureRequest, tmp_path: Path, empty_database: Path) -> Iterator[tuple[str, str]]:
    if request.param == "sqlite":
        files = [shutil.copy(empty_database, tmp_path / name) for name in ("one.db", "two.db")]
        yield f"sqlite+aiosqlite:///{files[0]}", f"sqlite+aiosqlite:///{files[1]}"
    else:
        with postgres_database() as one, postgres_database() as two:
            yield one, two


def spelled(passphrase: str) -> dict[str, str]:
    return {"Pollerd-Passphrase": base64.b64encode(passphrase.encode()).decode()}


async def furnish(api: Api) -> None:
    """Something of all that can be set."""
    await api.add("https://first.invalid/")
    site_id = await api.add(A, weight=2.5, cost=3, tags=["ü", "x"], min_interval=5, max_interval=60, half_life=7)
    await api("POST", f"/sites/{site_id}/pause")
    await api.add(B, **SECRET)
    await api.add(C, **RENDERED)
    for url in (D, "https://z.invalid/"):
        await api("DELETE", f"/sites/{await api.add(url)}")
    settings = {"tags": ["ü"], "pattern": "re:/[a-z]", "limit": 9, "interval": "2h", "paused": True}
    listed = (await api("POST", "/sources", {"url": "https://a.invalid/map.xml", **settings})).json
    await api("PATCH", f"/sources/{listed['id']}", {"paused": False})
    here = listed["id"]
    await api.control.sites.add([SiteSpec(A), SiteSpec(B)], source=here)
    await api.store.sources.vanish(here, [B], 5.0)
    await api("PATCH", f"/sources/{here}", {"paused": True})
    await api("POST", "/sources", {"url": "https://a.invalid/feed", "kind": "feed"})
    await api("POST", "/signal-sources", {"kind": "list", "site_id": site_id, "hosts": "any"})
    await api("POST", "/signal-sources", {"kind": "push", "name": "cms"})
    shared = {"allocator": "whittle", "objective": "freshness", "budget": 7.5, "shadows": ["uniform"]}
    assert (await api("PUT", "/allocation", shared)).status == 200


async def get(api: Api, passphrase: str | None = None) -> bytes:
    reply = await (api("GET", "/export") if passphrase is None else api("POST", "/export", headers=spelled(passphrase)))
    assert reply.status == 200, reply.body
    return reply.body


async def put(api: Api, document: bytes, passphrase: str | None = None, query: str = "") -> Reply:
    headers = {"Content-Type": "application/octet-stream", **(spelled(passphrase) if passphrase else {})}
    return await api("POST", f"/import{query}", data=document, headers=headers)


def bare(document: bytes) -> list[dict[str, Any]]:
    """Its records, with the secrets opened."""
    header, *records, _ = (json.loads(line) for line in document.splitlines())
    vault = Vault(PASSPHRASE, header["secrets"]) if header["secrets"] else None
    if vault is not None:
        vault.header = document.splitlines(keepends=True)[0]
        for one in records:
            if "secrets_sealed" in one:
                one["secrets_sealed"] = json.loads(vault.open(one["url"], one["secrets_sealed"]))
    return records


async def test_what_went_out_and_in_goes_out_equal(two_databases: tuple[str, str]) -> None:
    async with daemon_at(two_databases[0]) as one, daemon_at(two_databases[1]) as two:
        await furnish(one)
        document = await get(one, PASSPHRASE)
        assert b"hush" not in document
        planned = await put(two, document, PASSPHRASE, "?dry_run=true")
        assert (await two("GET", "/sites")).json["items"] == []
        reply = await put(two, document, PASSPHRASE)
        assert reply.status == 200, reply.body
        report = reply.json
        assert [(s["section"], s["status"], s["added"], s["changed"]) for s in report["sections"]] == [
            ("allocation", "applied", 0, 1),
            ("tags", "applied", 0, 0),
            ("sites", "applied", 4, 0),
            ("deleted_urls", "applied", 2, 0),
            ("sources", "applied", 2, 0),
            ("source_sites", "applied", 2, 0),
            ("signal_sources", "applied", 2, 0),
            ("channels", "applied", 0, 0),
            ("rules", "applied", 0, 0),
        ]
        dry = [{**s, "status": "compared"} for s in report["sections"]]
        assert (planned.json["sections"], planned.json["dry_run"]) == (dry, True)
        assert bare(await get(two, PASSPHRASE)) == bare(document)
        secrets = [one["secrets_sealed"] for one in bare(document) if "secrets_sealed" in one]
        sealed = {name: RENDERED[name] for name in ("credentials", "body", "pdf_password")} | {"typed": ["hush"]}
        assert secrets == [SECRET, sealed]
        rendered = await two.store.sites.find(C)
        assert rendered is not None
        assert (rendered.spec.title, rendered.spec.access.typed) == ("See", ("hush",))
        assert "main" in rendered.spec.selections
        there = await two.store.sites.find(B)
        assert there is not None
        assert there.spec.access.credentials is not None
        assert there.spec.access.credentials.password == "hush"
        again = (await put(two, document, PASSPHRASE)).json
        assert [(s["added"], s["changed"], s["unchanged"]) for s in again["sections"]] == [
            (0, 0, 1),
            (0, 0, 0),
            (0, 0, 4),
            (0, 0, 2),
            (0, 0, 2),
            (0, 0, 2),
            (0, 0, 2),
            (0, 0, 0),
            (0, 0, 0),
        ]
        view = (await two("GET", "/allocation")).json
        assert (view["allocator"], view["objective"], view["budget"], view["sites"]) == ("whittle", "freshness", 7.5, 4)
        assert [shadow["allocator"] for shadow in view["shadows"]] == ["uniform"]
        # What was deleted stays so: a list leaves it out.
        result = await two.control.sites.add([SiteSpec(D)], respect_deleted=True)
        assert (len(result.added), result.deleted) == (0, [0])


async def test_without_a_passphrase_the_export_names_what_is_missing(two_databases: tuple[str, str]) -> None:
    async with daemon_at(two_databases[0]) as one, daemon_at(two_databases[1]) as two:
        await furnish(one)
        document = await get(one)
        for word in (b"hush", b"Cookie", b"proxy.invalid", b'"me"'):
            assert word not in document
        missing = [
            {"url": B, "tag": None, "channel": None, "kinds": ["headers", "credentials", "proxy"]},
            {"url": C, "tag": None, "channel": None, "kinds": ["credentials", "body", "typed", "pdf_password"]},
        ]
        await two.add(C, weight=9, **{**RENDERED, "credentials": {"token": "theirs"}})
        reply = await put(two, document)
        assert reply.status == 200, reply.body
        report = reply.json
        assert (report["secrets_missing"], report["secrets_missing_count"]) == (missing, 2)
        kept = await two.store.sites.find(C)
        assert kept is not None
        assert kept.spec.access.credentials is not None
        assert (kept.spec.weight, kept.spec.access.credentials.token) == (None, "theirs")
        assert kept.spec.access.typed == ("hush",)


async def test_many_sites_are_taken_into_the_running_daemon(api: Api) -> None:
    await api.add(A, weight=5)
    lines = [{"section": "sites", "url": f"https://h{n % 40}.invalid/{n}"} for n in range(2_500)]
    document = made(*lines, {"section": "sites", "url": A, "paused": True})
    report = (await put(api, document)).json
    assert report["sections"][2] | {"reason": 0} == {
        "section": "sites", "status": "applied", "added": 2500, "changed": 1, "unchanged": 0, "reason": 0,
    }  # fmt: skip
    sites = [site async for site in api.store.sites.iterate()]
    live = api.control.sites.live([site.id for site in sites])
    assert len(live) == 2_501
    assert next(site for site in sites if site.spec.url == A).spec == SiteSpec(A, paused=True)
    assert live[sites[0].id].next_poll_at is None


def made(*records: dict[str, Any], counts: dict[str, int] | None = None, **header: Any) -> bytes:
    """A document put together by hand, with a right digest."""
    first = {
        "pollerd_export": 1,
        "written_by": "x",
        "sections": ["allocation", "sites", "deleted_urls"],
        "secrets": None,
    }
    lines = b"".join(json.dumps(one).encode() + b"\n" for one in ({**first, **header}, *records))
    counted = {one["section"]: sum(o.get("section") == one["section"] for o in records) for one in records}
    end = {"records": counts or counted, "sha256": hashlib.sha256(lines).hexdigest()}
    return lines + json.dumps({"end": end}).encode() + b"\n"


ALLOCATION = {"section": "allocation", "allocator": "whittle", "objective": "changes", "budget": 1}
SITE = {"section": "sites", "url": A}
MARK = {"section": "deleted_urls", "url": B, "deleted_at": 1}


@pytest.mark.parametrize(
    ("document", "told"),
    [
        (b"", "not an export of pollerd"),
        (b"https://a.org\n", "not an export of pollerd"),
        (b'{"sites": []}\n', "not an export of pollerd"),
        (made(SITE, pollerd_export=2), "this program reads version 1"),
        (made(SITE, sections=["sites", "nonsense"]), "of sections among"),
        (made(SITE, sections=7), "of sections among"),
        (made(SITE, secrets=7), "not an export of pollerd"),
        (made(SITE)[:-1], "is cut off, or no JSON object"),
        (made(SITE)[:-20], "is cut off, or no JSON object"),
        (made(SITE).rsplit(b"\n", 2)[0] + b"\n", "its last line, which counts the records, is missing"),
        (made(SITE).replace(b"a.invalid", b"b.invalid"), "it counts and digests its lines"),
        (made(SITE, counts={"sites": 2}), "it counts and digests its lines"),
        (made(SITE) + b"{}\n", "at its end after its last line"),
        (made({"section": "nonsense"}), "records of allocation"),
        (
            made(SITE, {"section": "deleted_urls", "url": B, "deleted_at": 1}, {**SITE, "url": C}),
            "section after section",
        ),
        (made({**SITE, "weight": -1}), "line 2: weight"),
        (made(SITE, {**SITE, "url": "nonsense"}), "line 3: url"),
        (made({**SITE, "headers": {"X": "y"}}), "line 2: headers"),
        (made({**SITE, "secrets_sealed": "AAAA"}), "it does not say how its secrets are sealed"),
        (made({**SITE, "secrets_left_out": ["url"]}), "line 2: secrets_left_out"),
        (made({"section": "allocation", "allocator": "none", "objective": "changes", "budget": 1}), "allocator"),
        (made({"section": "allocation", "allocator": "whittle", "objective": "x", "budget": 1}), "objective"),
        (made({"section": "allocation", "allocator": "whittle", "objective": "changes", "budget": "1"}), "budget"),
        (made({"section": "allocation", "budget": 1}), "line 2: allocation"),
        (made({**ALLOCATION, "shadows": "htraa"}), "shadows"),
        (made({**ALLOCATION, "shadows": ["none"]}), "shadows"),
        (made(SITE, {"section": "deleted_urls", "url": "x", "deleted_at": 1}), "line 3: url"),
        (made({"section": "deleted_urls", "url": A, "deleted_at": "now"}), "line 2: deleted_at"),
        (made(SITE, secrets={"kdf": "scrypt", "n": 2**30, "r": 8, "p": 1, "salt": "AAAA"}), "passphrase"),
    ],
)
async def test_what_cannot_be_used_is_refused_whole(api: Api, document: bytes, told: str) -> None:
    reply = await put(api, document)
    assert reply.status == 422, reply.body
    assert told in reply.json["detail"]
    assert (await api("GET", "/sites")).json["items"] == []


async def test_any_byte_of_a_sealed_document_counts(api: Api) -> None:
    """Damage is refused by the digest; who mends the digest is refused by the signature."""
    await api.add(B, **SECRET)
    await api.add(C)
    document = await get(api, PASSPHRASE)
    other = (await put(api, document, "another passphrase")).json
    assert (other["status"], other["errors"][0]["field"]) == (422, "passphrase")
    assert (await put(api, document)).json["errors"][0]["allowed"].startswith("given: the document holds")
    for place in range(0, len(document), 37):
        harmed = document[:place] + bytes([document[place] ^ 1]) + document[place + 1 :]
        assert (await put(api, harmed, PASSPHRASE)).status == 422, place
    lines = document.splitlines(keepends=True)
    for forged in (document.replace(b"c.invalid", b"e.invalid"), b"".join([*lines[:2], *lines[3:]])):
        rows = forged.splitlines(keepends=True)
        records = [json.loads(row) for row in rows[1:-1]]
        end = json.loads(made(*records).splitlines()[-1])["end"]
        end["signature"] = json.loads(lines[-1])["end"]["signature"]
        end["sha256"] = hashlib.sha256(b"".join(rows[:-1])).hexdigest()
        signed = b"".join(rows[:-1]) + json.dumps({"end": end}).encode() + b"\n"
        reply = await put(api, signed, PASSPHRASE)
        assert (reply.status, reply.json["errors"][0]["field"]) == (422, "passphrase")
    expensive = document.replace(b'"n":32768', b'"n":33554432')
    assert (await put(api, expensive, PASSPHRASE)).status == 422


@pytest.mark.parametrize("passphrase", ["short", "x" * 1025, ""])
async def test_a_passphrase_has_a_length(api: Api, passphrase: str) -> None:
    reply = await api("POST", "/export", headers=spelled(passphrase))
    assert reply.status == 422
    assert passphrase not in reply.json["detail"] or not passphrase


async def test_secrets_leave_with_the_write_scope_only(new_api: NewApi) -> None:
    api = await new_api(ApiSettings.listening("127.0.0.1:0", token="full", read_token="read"))
    reading = {"Authorization": "Bearer read"}
    assert (await api("GET", "/export", headers=reading)).status == 200
    assert (await api("POST", "/export", headers={**reading, **spelled(PASSPHRASE)})).status == 403
    assert (await api("POST", "/import", data=made(SITE), headers=reading)).status == 403
    writing = {"Authorization": "Bearer full", **spelled(PASSPHRASE)}
    assert (await api("POST", "/export", headers=writing)).status == 200


@pytest.mark.parametrize("before", [499, 500, 1_500])
async def test_a_section_is_taken_whole_or_not_at_all(api: Api, before: int) -> None:
    """LAKG is for equal weights: one site among many that has another refuses all of them, and what follows."""
    await api("PUT", "/allocation", {"allocator": "lakg"})
    many = [{"section": "sites", "url": f"https://a.invalid/{n}"} for n in range(before)]
    other = {"section": "sites", "url": B, "weight": 2}
    document = made(*many, other, {"section": "deleted_urls", "url": C, "deleted_at": 1})
    report = (await put(api, document)).json
    assert [(s["section"], s["status"]) for s in report["sections"]] == [
        ("allocation", "applied"),
        ("tags", "applied"),
        ("sites", "refused"),
        ("deleted_urls", "not_tried"),
        ("sources", "not_tried"),
        ("source_sites", "not_tried"),
        ("signal_sources", "not_tried"),
        ("channels", "not_tried"),
        ("rules", "not_tried"),
    ]
    assert not report["complete"]
    assert "weight" in report["sections"][2]["reason"]
    assert await api.store.sites.count() == 0
    assert await api.store.sites.deleted_urls("", 10) == []


async def test_what_the_topic_robot_found_is_not_what_a_user_set(api: Api) -> None:
    await fill(api.store)
    own = [site.spec.url for site in await api.store.sites.of_users(0, 1000)]
    assert len(own) < await api.store.sites.count()
    assert [one["url"] for one in bare(await get(api)) if one["section"] == "sites"] == own


# --- the commands ----------------------------------------------------------------------------------------------------


async def run(command: Any, api: Api, *words: str, stdin: str | None = None) -> Result:
    app = typer.Typer()
    app.command()(command)
    return await asyncio.to_thread(CliRunner().invoke, app, [*words, "--url", api.root], input=stdin)


async def test_the_commands_take_it_there_and_back(api: Api, tmp_path: Path, empty_database: Path) -> None:
    await furnish(api)
    file, passphrase = tmp_path / "all.jsonl", tmp_path / "passphrase"
    passphrase.write_text(PASSPHRASE + "\n")
    words = (str(file), "--passphrase-file", str(passphrase))
    plain = await run(export, api, str(file))
    assert plain.exit_code == 0, plain.output
    missing = "the secrets of 2 sites, tags or channels are missing; --with-secrets takes them along:"
    assert f"{missing}\n  {B}: headers, credentials, proxy" in plain.stderr
    sealed = await run(export, api, *words, "--with-secrets")
    assert (sealed.exit_code, sealed.stderr) == (0, ""), sealed.output
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.glob(".all*")] == []
    other = shutil.copy(empty_database, tmp_path / "other.db")
    async with daemon_at(f"sqlite+aiosqlite:///{other}") as two:
        without = await run(import_, two, str(file))
        assert (without.exit_code, "--passphrase-file" in without.stderr) == (2, True)
        dry = await run(import_, two, *words, "--dry-run")
        assert dry.exit_code == 0, dry.output
        assert "sites\tcompared\t4\t0\t0" in dry.stdout
        assert await two.store.sites.count() == 0
        done = await run(import_, two, *words, "--json")
        assert json.loads(done.stdout)["complete"]
        assert await two.store.sites.count() == 4


@pytest.mark.parametrize(
    ("command", "words", "told"),
    [
        (export, ("/nowhere/x",), "there is no folder /nowhere"),
        (export, ("x", "--passphrase-file", "y"), "needs --with-secrets"),
        (export, ("x", "--with-secrets", "--passphrase-file", "/nowhere/y"), "there is no folder /nowhere"),
        (export, ("x", "--with-secrets"), "a passphrase is needed"),
        (import_, ("/dev/null",), "not an export of pollerd"),
    ],
)
async def test_mistakes_end_with_one_clear_line(
    api: Api, command: Any, words: tuple[str, ...], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = await run(command, api, *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert told in result.stderr
    assert result.stderr.count("\n") == 1
    assert list(tmp_path.glob("x*")) == []


async def test_signal_sources_are_set_and_need_their_sites(api: Api) -> None:
    await api.add(A)
    named = {"section": "signal_sources", "kind": "feed", "url": A, "name": None, "hosts": "same"}
    report = (await put(api, made(named, sections=["signal_sources"]))).json
    found = {one["section"]: one for one in report["sections"]}["signal_sources"]
    assert (found["status"], found["added"]) == ("applied", 1)
    report = (await put(api, made({**named, "kind": "links", "hosts": "any"}, sections=["signal_sources"]))).json
    found = {one["section"]: one for one in report["sections"]}["signal_sources"]
    assert (found["changed"], found["unchanged"]) == (1, 0)
    (shown,) = (await api("GET", "/signal-sources")).json["items"]
    assert (shown["kind"], shown["hosts"], shown["origin"]) == ("links", "any", "api")
    push = {"section": "signal_sources", "kind": "push", "url": None, "name": "cms", "hosts": "any"}
    report = (await put(api, made(push, {**named, "url": B}, sections=["signal_sources"]))).json
    found = {one["section"]: one for one in report["sections"]}["signal_sources"]
    assert (found["status"], "that of a site" in found["reason"]) == ("refused", True)
    assert len((await api("GET", "/signal-sources")).json["items"]) == 1


async def test_urls_go_out_and_in_as_they_are_sent(two_databases: tuple[str, str]) -> None:
    given = "https://signed.invalid/%7ea?sign=%2F"
    async with daemon_at(two_databases[0]) as one, daemon_at(two_databases[1]) as two:
        site_id = await one.add(given, **SECRET)
        assert (await one("GET", f"/sites/{site_id}")).json["url"] == "https://signed.invalid/~a?sign=/"
        assert (await one("GET", "/sites/export?format=text")).body.decode() == f"{given}\n"
        document = await get(one, PASSPHRASE)
        for expected in ("added", "unchanged"):
            report = (await put(two, document, PASSPHRASE)).json["sections"]
            assert [s[expected] for s in report if s["section"] == "sites"] == [1]
        [spec] = [site.spec for site in (await two.store.sites.at(["https://signed.invalid/~a?sign=/"])).values()]
        assert (spec.sent_url, dict(spec.access.headers)) == (given, SECRET["headers"])
        for url, differs in ((given, set[str]()), ("https://signed.invalid/~a?sign=%2f", {"spelling"})):
            [changed] = (await two("POST", "/sites/diff?sync=true", data=url.encode())).json["changed"]
            differing = {field["field"]: (field["before"], field["after"]) for field in changed["fields"]}
            assert differing.keys() - {"headers", "credentials", "proxy"} == differs
        assert differing["spelling"] == (given, url)
        await two("PATCH", f"/sites/{changed['id']}", {"url": url})
        assert (await two.store.sites.get(changed["id"])).spec.sent_url == url
