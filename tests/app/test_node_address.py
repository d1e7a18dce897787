"""Where the other nodes reach a daemon, as `run` puts it together."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterator

import pytest

from pollerd.app.config import load
from pollerd.app.serve import serve
from pollerd.daemon.control.control import Control
from pollerd.daemon.views import ClusterView
from pollerd.errors import ConfigError
from tests.support.ports import free_port
from tests.support.postgres import postgres_database


@pytest.fixture
def database() -> Iterator[str]:
    with postgres_database() as url:
        yield url


async def test_auto_is_the_machines_name_with_the_port_of_the_api(database: str) -> None:
    addresses: list[str | None] = []

    async def look(control: Control) -> None:
        view = await control.cluster.view()
        assert isinstance(view, ClusterView)
        addresses.extend(one.address for one in view.nodes)

    port = free_port()
    flags = {
        "database": database,
        "node": "auto",
        "node_address": "auto",
        "listen": f"0.0.0.0:{port}",
        "token": "t" * 9,
    }
    await asyncio.wait_for(serve(load(flags, environ={}), look), 120)
    assert addresses == [f"http://{socket.gethostname()}:{port}"]


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "[::1]:0", "localhost:0"])
async def test_auto_needs_an_api_that_others_reach(database: str, listen: str) -> None:
    flags = {"database": database, "node": "auto", "node_address": "auto", "listen": listen}
    with pytest.raises(ConfigError, match=re.escape("node_address: auto needs an API that others reach")):
        await asyncio.wait_for(serve(load(flags, environ={})), 120)
