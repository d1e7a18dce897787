"""Every call, fuzzed with schemathesis from the OpenAPI document, over a real loopback socket.

Bounded and derandomised: the same requests at every run of the same code, whose constants are tried, too. The daemon
behind it is built but does not poll, for what is added here would be polled on the web.
"""

from __future__ import annotations

import asyncio
import io
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack
from http import HTTPStatus
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, settings
from prometheus_client import CollectorRegistry
from schemathesis.checks import load_all_checks, not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.generation.feedback import FeedbackSources
from schemathesis.pytest._test_builder import build_operation_test
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance
from urllib3 import HTTPResponse

from pollerd.api.application import create_api
from pollerd.api.settings import ApiSettings
from pollerd.app.build import LiveSettings, live_daemon
from pollerd.site_settings import SiteSpec
from pollerd.storage.store import Store
from pollerd.telemetry import Instruments
from tests.api.conftest import served
from tests.support.collections import fill
from tests.support.openapi import DOCUMENT

TOKEN = "fuzz-token"
SITES = 10
PATIENCE_SECONDS = 60

# Without a seed of its own each run draws others, whatever hypothesis is told.
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT, config=schemathesis.Config(seed=1))
FEEDBACK = FeedbackSources()
OPERATIONS = {found.ok().label: found.ok() for found in SCHEMA.get_all_operations() if isinstance(found, Ok)}


@schemathesis.serializer("text/csv", "application/x-ndjson", "text/x-opml")
def as_text(context: schemathesis.SerializationContext, value: object) -> bytes:
    """Lists are fuzzed as the texts that they are."""
    return str(value).encode("utf-8", "replace")


class Background:
    """The API in a loop of its own, in a thread: schemathesis calls it from outside, as anybody does."""

    def __init__(self, database: str) -> None:
        self._database, self.root = database, ""
        self._loop = asyncio.new_event_loop()
        self._ready, self._stop = threading.Event(), asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="api")

    def __enter__(self) -> Background:
        self._thread.start()
        self._ready.wait()
        assert self.root, "the API did not come up"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._ready.set()
            self._loop.close()

    async def _serve(self) -> None:
        async with AsyncExitStack() as stack:
            store = await Store.open(self._database)
            stack.push_async_callback(store.close)
            await fill(store)
            registry = CollectorRegistry()
            rng, telemetry = np.random.default_rng(1), Instruments(registry, "1")
            daemon = await stack.enter_async_context(live_daemon(store, LiveSettings(), telemetry, rng))
            await daemon.control.sites.add([SiteSpec(f"https://example.org/{i}") for i in range(SITES)])
            settings = ApiSettings.listening("127.0.0.1:0", token=TOKEN)
            app = create_api(daemon.control, store, registry, settings, "1")
            self.root = await stack.enter_async_context(served(app))
            self._ready.set()
            await self._stop.wait()


class FirstEvents(requests.adapters.HTTPAdapter):
    """An event stream has no end to wait for: what comes first of it counts as the whole answer."""

    def send(self, *arguments: Any, **options: Any) -> requests.Response:
        response = super().send(*arguments, **options)
        if response.headers.get("Content-Type", "").startswith("text/event-stream"):
            first = next(response.raw.stream(None, decode_content=True))
            response.close()
            headers = {name: value for name, value in response.headers.items() if name.lower() != "transfer-encoding"}
            response.raw = HTTPResponse(io.BytesIO(first), headers, response.status_code, preload_content=False)
        return response


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, empty_database: Path) -> Iterator[str]:
    file = shutil.copy(empty_database, tmp_path_factory.mktemp("fuzz") / "poll.db")
    with Background(f"sqlite+aiosqlite:///{file}") as background:
        yield background.root


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with requests.Session() as opened:
        opened.trust_env = False
        opened.mount("http://", FirstEvents())
        opened.headers["Authorization"] = f"Bearer {TOKEN}"
        # On a machine that stands still for seconds a kept connection may just be closing when it is used again.
        opened.headers["Connection"] = "close"
        yield opened


EXCLUDED = {
    # A daemon that is not running is not well.
    "/healthz": [not_a_server_error],
    # Any text is a list; its bad lines are named in an answer of 200.
    "/api/v1/sites/import": [negative_data_rejection],
    "/api/v1/sites/diff": [negative_data_rejection],
    # The tool takes the field `pattern` for the keyword of schemas, and any text in it for a mistake.
    "/api/v1/sources": [negative_data_rejection],
    "/api/v1/sources/{source_id}": [negative_data_rejection],
    # Any printable text is a tag; `test_tags` tries bodies that are refused.
    "/api/v1/tags/{name}": [negative_data_rejection],
}
UNSAID = re.compile(
    "name: 1 to 64 letters.*|password: .* not all the same|(name|password): is needed, unless a token is given"
    "|token: give a token, or .*|render: a rendered poll costs .*|(secret|service|password): .*"
    "|name: (give one of|the selection reads|unknown value) .*"
    "|title: at most .* printable characters"
    "|url: .*|proxy: .*|document: .*|passphrase: .*|header: .*|tags: words .*|credentials.*: .* printable characters"
    "|cursor: a next_cursor (or previous_cursor )?of this list|(order|sort): the cursor is of another order: .*"
    "|rate_max: at least rate_min .*|q: at most 16 words"
    "|filter: given, or ids: one of the two|value: .*|value.tag: words .*|(ids.[0-9]+|filter.source): a whole number"
    "|paused_until: .*|(tag|name): words .*|max_interval: at least min_interval .*"
    "|tag: the tag of a site that is polled|method: a body is sent with POST only"
    "|(tags|sources|signal_sources|channels|rules|rule)[.[].*: .*|until: a time such as .*|settings: unknown setting .*"
    "|(site_id|name|hosts): .*kind .*|(signals|urlList|reads|complete_until)([.[].*)?: .*"
    "|(site_id|source): the (id|name) of a .*"
    "|ids.[0-9]+: at most .*|(limit|site_id): a whole number|channels: (unknown|there is no) channel.*"
    "|name: 1 to 100 printable characters without .*|selections: names of .*"
    "|pdf_password: .* characters of UTF-8 .*|kind: (unknown kind|.* is a service of).*"
    "|(render|rule)[.].*: unknown field.*"
    "|keep_screenshots: only a rendered site has screenshots: .*|host: a host name in ASCII, .*"
    "|shadows: .* without the one in charge|number of sites: at most .* allocates"
    "|(weight|cost): .* as for every site while .* allocates|objective: .* the only one that .* is defined for",
    re.DOTALL,
)
"""What values must be that no schema can say: it depends on other values, on what there is, or on a grammar."""


def beyond_schema(response: schemathesis.Response) -> bool:
    """Whether it refuses only what no schema can say: all else that fits the schema must be taken."""
    if response.status_code != HTTPStatus.UNPROCESSABLE_ENTITY:
        return False
    return all(UNSAID.fullmatch(f"{error['field']}: {error['allowed']}") for error in response.json()["errors"])


def test_every_operation_is_fuzzed() -> None:
    assert len(OPERATIONS) == sum(len(methods) for methods in DOCUMENT["paths"].values())


@pytest.mark.parametrize("label", OPERATIONS)
def test_no_call_breaks_its_word(label: str, root: str, session: requests.Session) -> None:
    """Makes the cases of one operation here: `SCHEMA.parametrize()` makes all of them in each process that collects."""

    @settings(max_examples=15, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    def keeps_its_word(case: schemathesis.Case[Any]) -> None:
        response = case.call(base_url=root, session=session, timeout=PATIENCE_SECONDS)
        excluded: list[schemathesis.CheckFunction] = list(EXCLUDED.get(case.path, []))
        if beyond_schema(response):
            excluded.append(positive_data_acceptance)
        case.validate_response(response, excluded_checks=excluded)

    load_all_checks()
    build_operation_test(
        config=SCHEMA.config,
        operation=OPERATIONS[label],
        test_func=keeps_its_word,
        given_kwargs={},
        feedback=FEEDBACK,
    )()
