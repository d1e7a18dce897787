"""Every call, fuzzed with schemathesis from the OpenAPI document, over a real loopback socket.

Bounded and derandomised: the same requests at every run. The daemon behind it is built but does not poll, for what is
added here would be polled on the web.
"""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import numpy as np
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, settings
from prometheus_client import CollectorRegistry
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from pollerd.api import ApiSettings, create_api
from pollerd.daemon import Daemon, DaemonSettings, SteadyClock
from pollerd.fetching import Fetcher, FetchSettings
from pollerd.model import SiteSpec
from pollerd.scheduling import SchedulingSettings
from pollerd.storage import Store
from pollerd.telemetry import Instruments
from tests.support.openapi import DOCUMENT

from .conftest import served

TOKEN = "fuzz-token"
SITES = 10
PATIENCE_SECONDS = 60

schema = schemathesis.openapi.from_dict(DOCUMENT)


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
            registry, clock = CollectorRegistry(), SteadyClock()
            fetcher = await stack.enter_async_context(Fetcher(FetchSettings()))
            rng, telemetry = np.random.default_rng(1), Instruments(registry, "1")
            daemon = await Daemon.create(store, fetcher, DaemonSettings(), SchedulingSettings(), telemetry, rng, clock)
            await daemon.control.add_sites([SiteSpec(f"https://example.org/{i}") for i in range(SITES)])
            settings = ApiSettings.listening("127.0.0.1:0", token=TOKEN)
            app = create_api(daemon.control, store, registry, settings, "1")
            self.root = await stack.enter_async_context(served(app))
            self._ready.set()
            await self._stop.wait()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, empty_database: Path) -> Iterator[str]:
    file = shutil.copy(empty_database, tmp_path_factory.mktemp("fuzz") / "poll.db")
    with Background(f"sqlite+aiosqlite:///{file}") as background:
        yield background.root


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with requests.Session() as opened:
        opened.trust_env = False
        opened.headers["Authorization"] = f"Bearer {TOKEN}"
        # On a machine that stands still for seconds a kept connection may just be closing when it is used again.
        opened.headers["Connection"] = "close"
        yield opened


# Not all that a URL, a moment or a cursor must be can be said in a schema.
UNSAID = [positive_data_acceptance]
EXCLUDED = {
    # A daemon that is not running is not well.
    "/healthz": [*UNSAID, schemathesis.checks.not_a_server_error],
    # Any text is a list; its bad lines are named in an answer of 200.
    "/api/v1/sites/import": [*UNSAID, negative_data_rejection],
}


# An event stream has no end to wait for: it has tests of its own.
@schema.exclude(path="/api/v1/events").parametrize()
@settings(max_examples=15, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
def test_no_call_breaks_its_word(case: schemathesis.Case, root: str, session: requests.Session) -> None:
    excluded = EXCLUDED.get(case.path, UNSAID)
    case.call_and_validate(base_url=root, session=session, excluded_checks=excluded, timeout=PATIENCE_SECONDS)
