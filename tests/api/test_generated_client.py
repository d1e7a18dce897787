"""The OpenAPI document generates a client without a warning, and the client works on a running daemon."""

from __future__ import annotations

import asyncio
import importlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pollerd.api.application import create_api
from pollerd.api.settings import ApiSettings
from tests.api.conftest import served
from tests.daemon.conftest import Start, database, origin, start
from tests.support.openapi import DOCUMENT
from tests.support.origin import Origin, Page

__all__ = ["database", "origin", "start"]
TOKEN = "client-token"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The generated package, imported."""
    folder = tmp_path_factory.mktemp("generated")
    (folder / "openapi.json").write_text(json.dumps(DOCUMENT))
    tools = Path(sys.executable).parent
    words = ["generate", "--path", "openapi.json", "--meta", "none", "--output-path", "pollerd_client"]
    made = subprocess.run(
        [tools / "openapi-python-client", *words, "--fail-on-warning"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"},
        check=False,
    )
    assert (made.returncode, made.stderr, made.stdout.strip()) == (0, "", "Generating pollerd_client")
    sys.path.insert(0, str(folder))
    try:
        yield importlib.import_module("pollerd_client")
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.split(".")[0] == "pollerd_client"]:
            del sys.modules[name]


async def call(group: str, name: str, **given: Any) -> Any:
    """In a thread: the generated calls that are coroutines cannot send a file."""
    made = importlib.import_module(f"pollerd_client.api.{group}.{name}")
    return await asyncio.to_thread(made.sync, **given)


def test_every_operation_and_schema_has_a_pleasant_name(client: Any) -> None:
    models = importlib.import_module("pollerd_client.models")
    assert {"Site", "SiteList", "ChangeList", "ImportResult", "RestoreReport", "AllocatorName"} <= set(models.__all__)
    clumsy = ("Type0", "Type1", "Item", "Listing", "Format_", "Body", "Response200", "Form")
    assert [name for name in models.__all__ if name.endswith(clumsy) or name.startswith("Listing")] == []
    folder = Path(client.__file__).parent / "api"
    made = {file.stem for file in folder.glob("*/*.py")} - {"__init__"}
    operations = {operation["operationId"] for item in DOCUMENT["paths"].values() for operation in item.values()}
    assert made == operations


async def test_it_steers_a_running_daemon(client: Any, start: Start, origin: Origin, tmp_path: Path) -> None:
    models, types = importlib.import_module("pollerd_client.models"), importlib.import_module("pollerd_client.types")
    origin.pages |= {"/a": Page(body="<p>one</p>"), "/b": Page()}
    async with start() as running:
        app = create_api(
            running.control,
            running.store,
            running.registry,
            ApiSettings.listening("127.0.0.1:0", token=TOKEN),
            "1.2.3",
        )
        async with served(app) as root:
            at = client.AuthenticatedClient(base_url=root, token=TOKEN, raise_on_unexpected_status=True)
            wanted = models.NewSite(url=origin.url("/a"), weight=2.0, credentials=models.TokenCredentials(token="hush"))
            site = await call("sites", "add_site", client=at, body=wanted)
            assert (site.url, site.weight, site.has_credentials) == (origin.url("/a"), 2.0, True)
            again = await call("sites", "add_site", client=at, body=wanted)
            assert (type(again), again.status, again.existing_id) == (models.Problem, 409, site.id)
            lines = f"url,tags\n{origin.url('/b')},x;y\nnonsense,\n".encode()
            imported = await call(
                "sites",
                "import_sites",
                client=at,
                body=types.File(payload=io.BytesIO(lines)),
                format_=models.ListFormat.CSV,
            )
            assert (imported.added, imported.rejected[0].line) == (1, 3)
            listed = await call("sites", "list_sites", client=at, state=models.SiteState.ACTIVE, limit=10)
            assert [one.url for one in listed.items] == [origin.url("/a"), origin.url("/b")]
            await running.polled(site.id, 2)
            origin.pages["/a"] = Page(body="<p>two</p>")
            changes = await _changed(at)
            assert [(one.site_id, one.url) for one in changes.items] == [(site.id, origin.url("/a"))]
            feed = await call("changes", "changes_feed", client=at)
            assert feed.startswith("<?xml")
            assert origin.url("/a") in feed
            patched = await call("allocation", "set_allocation", client=at, body=models.AllocationPatch(budget=30.0))
            assert patched.budget == 30.0
            document = await call("transfer", "export_settings", client=at)
            report = await call("transfer", "import_settings", client=at, body=document, dry_run=True)
            assert [one.unchanged for one in report.sections] == [1, 0, 2, 0, 0, 0, 0, 0, 0]
            await call("sites", "delete_site", client=at, site_id=site.id)
            gone = await call("sites", "get_site", client=at, site_id=site.id)
            assert (type(gone), gone.status) == (models.Problem, 404)
            at.get_httpx_client().close()


async def _changed(at: Any) -> Any:

    for _ in range(1_000):
        found = await call("changes", "list_changes", client=at)
        if found.items:
            return found
        await asyncio.sleep(0.02)
    raise AssertionError("no change was found")
