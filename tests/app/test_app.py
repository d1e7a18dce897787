"""The daemon as `run` puts it together: the list, what was set over REST, and who says when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import structlog

from pollerd.app.config import load
from pollerd.app.serve import serve
from pollerd.daemon.control.control import Control
from pollerd.daemon.views import AllocationView
from pollerd.errors import ConfigError, DatabaseInUseError, PollerdError, SchemaError
from pollerd.logs import RECENT, set_up_logs
from pollerd.model import Role
from pollerd.site_settings import SiteSpec
from pollerd.storage.store import Store
from tests.support.origin import Origin, Page, until
from tests.support.ports import free_port

Watching = Callable[[Control], Awaitable[None]]
Serving = Callable[..., Awaitable[None]]


@pytest.fixture
def database(tmp_path: Path, empty_database: Path) -> str:
    return f"sqlite+aiosqlite:///{shutil.copy(empty_database, tmp_path / 'poll.db')}"


@pytest.fixture
def serving(database: str) -> Serving:
    """`await serving(watch, budget=20)`: runs until the watch has seen enough. Options are flags, given explicitly."""

    async def do(watch: Watching, environ: dict[str, str] | None = None, **flags: Any) -> None:
        usual = {"database": database, "listen": "127.0.0.1:0", "allow_private": True, "host_interval": "0"}
        config = load({**usual, "min_interval": "0", **flags}, environ=environ or {})
        await asyncio.wait_for(serve(config, watch), 120)

    return do


async def urls_of(database: str) -> set[str]:
    store = await Store.open(database)
    try:
        return {site.spec.url async for site in store.sites.iterate()}
    finally:
        await store.close()


def listed(tmp_path: Path, *urls: str) -> Path:
    file = tmp_path / "urls.txt"
    file.write_text("\n".join(urls))
    return file


async def read_through(control: Control, sites: int) -> None:
    await until(lambda: control.health.status().sites == sites)
    await asyncio.sleep(0.2)


async def test_the_list_is_read_at_every_start_and_adds_what_is_new(
    origin: Origin, serving: Serving, database: str, tmp_path: Path
) -> None:
    a, b, c = (origin.url(path) for path in ("/a", "/b", "/c"))
    await serving(lambda control: read_through(control, 2), urls=listed(tmp_path, a, b))
    await serving(lambda control: read_through(control, 3), urls=listed(tmp_path, a, c))
    assert await urls_of(database) == {a, b, c}, "what is gone from the list stays"


async def test_what_a_user_deleted_stays_deleted_unless_the_list_is_the_truth(
    origin: Origin, serving: Serving, database: str, tmp_path: Path
) -> None:
    a, b, c = (origin.url(path) for path in ("/a", "/b", "/c"))
    file = listed(tmp_path, a, b)

    async def delete_b(control: Control) -> None:
        await read_through(control, 2)
        site_ids = [1, 2]
        (second,) = [i for i in site_ids if (await _url(control, i)) == b]
        await control.sites.delete(second)

    await serving(delete_b, urls=file)
    await serving(lambda control: read_through(control, 1), urls=file)
    assert await urls_of(database) == {a}
    await serving(lambda control: read_through(control, 2), urls=listed(tmp_path, b, c), sync=True)
    assert await urls_of(database) == {b, c}


async def test_a_list_without_a_line_that_can_be_used_removes_nothing(
    origin: Origin, serving: Serving, database: str, tmp_path: Path
) -> None:
    a = origin.url("/a")
    await serving(lambda control: read_through(control, 1), urls=listed(tmp_path, a))
    junk = listed(tmp_path, "<html>a proxy said no</html>")
    await serving(lambda control: read_through(control, 1), urls=junk, sync=True)
    assert await urls_of(database) == {a}


async def test_a_file_that_is_no_list_is_not_read_to_its_end_and_removes_nothing(
    origin: Origin, serving: Serving, database: str, tmp_path: Path
) -> None:
    a, b, c = (origin.url(path) for path in ("/a", "/b", "/c"))
    await serving(lambda control: read_through(control, 1), urls=listed(tmp_path, a))
    junk = listed(tmp_path, b, *["nonsense"] * 20_000, c)
    await serving(lambda control: read_through(control, 2), urls=junk, sync=True)
    assert await urls_of(database) == {a, b}


async def test_a_long_list_may_have_many_bad_lines(
    origin: Origin, serving: Serving, database: str, tmp_path: Path
) -> None:
    urls = [origin.url(f"/{n}") for n in range(3_000)]
    mixed = listed(tmp_path, *(line for url in urls for line in (url, "nonsense")))
    await serving(lambda control: read_through(control, 3_000), urls=mixed)
    assert await urls_of(database) == set(urls)


async def _url(control: Control, site_id: int) -> str:
    return (await control.sites.update(site_id, {})).spec.url


async def seen(serving: Serving, **options: Any) -> AllocationView:
    """The allocation that a start with these options has in force."""
    views: list[AllocationView] = []

    async def look(control: Control) -> None:
        views.append(control.allocation.view())

    await serving(look, **options)
    return views[0]


async def test_what_was_set_while_running_outlives_the_restart(serving: Serving) -> None:
    async def change(control: Control) -> None:
        await control.allocation.set(allocator="uniform", objective="freshness", budget=33.0)

    await serving(change)
    kept = await seen(serving)
    assert (kept.allocator, kept.objective, kept.budget) == ("uniform", "freshness", 33.0)


@pytest.mark.parametrize("how", ["flag", "environment"])
async def test_what_is_said_explicitly_wins(serving: Serving, how: str) -> None:
    async def change(control: Control) -> None:
        await control.allocation.set(allocator="uniform", budget=33.0)

    await serving(change)
    options: dict[str, Any] = {"budget": 44.0} if how == "flag" else {"environ": {"POLLERD_BUDGET": "44"}}
    view = await seen(serving, **options)
    assert (view.allocator, view.budget) == ("uniform", 44.0)


async def test_the_last_said_holds_until_something_else_is_said(serving: Serving) -> None:
    assert (await seen(serving, budget=11.0)).budget == 11.0
    assert (await seen(serving, budget=12.0)).budget == 12.0
    assert (await seen(serving)).budget == 12.0
    assert (await seen(serving, objective="freshness")).objective == "freshness"
    assert (await seen(serving)).objective == "freshness"


async def shadows_of(serving: Serving, *expected: str, **options: Any) -> None:
    """Waits until a start with these options has these shadows."""

    def there(control: Control) -> bool:
        return tuple(view.allocator for view in control.allocation.view().shadows) == expected

    await serving(lambda control: until(lambda: there(control)), **options)


async def test_shadows_that_were_set_while_running_outlive_the_restart_unless_others_are_said(
    serving: Serving, database: str
) -> None:
    async def change(control: Control) -> None:
        await control.allocation.set(shadows=["htraa", "uniform"])

    await serving(change)
    await shadows_of(serving, "htraa", "uniform")
    await shadows_of(serving, "uniform", allocator="htraa")
    await shadows_of(serving, "lakg", shadow="lakg")
    await shadows_of(serving, "lakg")

    async def clear(control: Control) -> None:
        await until(lambda: bool(control.allocation.view().shadows))
        await control.allocation.set(allocator="uniform", shadows=[])

    await serving(clear)
    store = await Store.open(database)
    try:
        kept = await store.allocation.load()
    finally:
        await store.close()
    assert kept is not None
    assert (kept.allocator, kept.shadows) == ("uniform", ())


async def test_a_watch_that_fails_takes_all_down_with_its_cause(serving: Serving, database: str) -> None:
    cause = RuntimeError("no eyes")

    async def blind(_: Control) -> None:
        raise cause

    with pytest.raises(ExceptionGroup) as caught:
        await serving(blind)
    assert cause in caught.value.exceptions
    await (await Store.open(database)).close()


async def test_a_list_that_vanishes_takes_all_down_with_its_cause(serving: Serving, tmp_path: Path) -> None:
    async def patient(_: Control) -> None:
        await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup) as caught:
        await serving(patient, urls=tmp_path / "gone.txt")
    assert caught.group_contains(ConfigError)


@pytest.mark.parametrize("given", ["another program's", "a folder", "nowhere", "in use"])
async def test_a_database_that_cannot_be_opened_is_the_cause_and_leaves_nothing_open(
    serving: Serving, database: str, tmp_path: Path, given: str
) -> None:
    file, clean = tmp_path / "poll.db", contextlib.AsyncExitStack()
    if given == "another program's":
        file.write_bytes(b"no database " * 1000)
    elif given == "a folder":
        file.unlink()
        file.mkdir()
    elif given == "nowhere":
        database = f"sqlite+aiosqlite:///{tmp_path / 'gone' / 'poll.db'}"
    else:
        clean.push_async_callback((await Store.open(database)).close)
    port = free_port()
    async with clean:
        with pytest.raises(PollerdError, match=r"poll\.db") as caught:
            await serving(read_nothing, database=database, listen=f"127.0.0.1:{port}")
    with contextlib.closing(socket.socket()) as other:
        other.bind(("127.0.0.1", port))  # refused while any socket is bound there
    assert caught.type in (ConfigError, DatabaseInUseError, SchemaError)


async def read_nothing(_: Control) -> None:
    raise AssertionError("the daemon came up")


async def test_one_daemon_a_database(serving: Serving, database: str) -> None:
    async def second(_: Control) -> None:
        with pytest.raises(DatabaseInUseError):
            await Store.open(database)

    await serving(second)


async def test_deleting_all_of_the_list(origin: Origin, serving: Serving, database: str, tmp_path: Path) -> None:
    origin.pages["/a"] = Page()
    await serving(lambda control: read_through(control, 1), urls=listed(tmp_path, origin.url("/a")))
    await serving(lambda control: read_through(control, 0), urls=listed(tmp_path, "# nothing"), sync=True)
    assert await urls_of(database) == set()


@pytest.mark.parametrize("field", ["weight", "cost"])
async def test_an_allocator_that_cannot_hold_the_stored_sites_says_why(
    serving: Serving, database: str, field: str
) -> None:
    store = await Store.open(database)
    other: dict[str, Any] = {field: 2.0}
    specs = [SiteSpec("http://a.example/"), SiteSpec("http://b.example/", **other)]
    await store.sites.add(specs, ["a.example:80", "b.example:80"], 0.0, respect_deleted=False)
    await store.close()
    with pytest.raises(ConfigError) as caught:
        await serving(read_nothing, allocator="htraa")
    assert str(caught.value) == (
        f"allocator htraa cannot hold the stored sites: {field}: must be 1 as for every site while htraa allocates; "
        "given: 2.0"
    )
    assert (await seen(serving, allocator="whittle")).sites == 2


async def test_the_log_has_a_link_for_the_first_user_where_one_is_needed(
    serving: Serving, database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is in no list of the last lines: whoever may read pages could use it."""

    async def look(control: Control) -> None:
        await asyncio.sleep(0.2)

    async def lines(**flags: Any) -> str:
        set_up_logs()
        try:
            await serving(look, **flags)
        finally:
            structlog.reset_defaults()
        return capsys.readouterr().err

    assert "no_users" not in await lines()
    assert "no_users" not in await lines(sign_in=True, no_web=True)
    proxied = {"trusted_proxy": ("192.0.2.1",), "user_header": "X-User"}
    assert "no_users" not in await lines(**proxied)
    told = await lines(sign_in=True, public_url="https://pollerd.example/")
    link = re.search(r"https://pollerd\.example/first-user#\S{43}\b", told)
    assert link is not None
    assert not [line for line in RECENT.at_least("debug") if "first-user" in line]
    assert re.search(r"http://127\.0\.0\.1:\d+/first-user#", await lines(token="sesame"))
    store = await Store.open(database)
    await store.accounts.add_user("ada", Role.WRITE, None, 1.0)
    await store.close()
    assert "no_users" not in await lines(sign_in=True)
