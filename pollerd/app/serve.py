"""The entry point of the daemon: builds it from the settings and runs it with its API. Reads top to bottom."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import structlog
import uvloop
from prometheus_client import CollectorRegistry

import pollerd
from pollerd.api import ApiServer, ApiSettings, create_api, create_waiting_api
from pollerd.app import gc_tuning
from pollerd.app.build import LiveSettings, live_daemon
from pollerd.app.config import Config
from pollerd.app.environment import DEFAULT_URL
from pollerd.app.reload import Reload
from pollerd.app.startup import begun, served
from pollerd.app.topic_file import read_mission
from pollerd.app.url_list import read_list
from pollerd.daemon import Control, Daemon, DaemonSettings, StorageHealth
from pollerd.errors import ConfigError, DatabaseUnavailableError, SchemaError
from pollerd.fetching import FetchSettings
from pollerd.storage import Store, check_place
from pollerd.telemetry import Instruments

Watch = Callable[[Control], Awaitable[None]]
Again = Callable[[], Config]
_DESCRIPTORS_WANTED = 65_536
_DESCRIPTORS_OF_OURS = 64
"""Reserved for the database, the API and others."""
_API_DRAIN_SECONDS = 5
"""Maximum time for API requests under way at shutdown: a client that never finishes must not block it."""


def run(config: Config, watch: Watch | None = None, again: Again | None = None) -> None:
    """Runs the daemon until SIGINT or SIGTERM. `watch` observes it (a status line); when it returns, the daemon stops.

    `again` reads the settings again, on SIGHUP.
    """
    if again is not None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until the start is complete, when a signal must not end it
    gc_tuning.begin()
    uvloop.run(serve(config, watch, again))


async def serve(config: Config, watch: Watch | None = None, again: Again | None = None) -> None:
    """Runs the daemon with its API in one loop. If any task fails, all are stopped, with its cause."""
    registry = CollectorRegistry()
    instruments = Instruments(registry, pollerd.__version__)
    with contextlib.closing(_bind(config.api)) as listener:
        parts = await _begun(config, instruments, listener)
        if parts is not None:
            async with parts.resources:
                await _serve(config, parts, registry, listener, watch, again)
        structlog.get_logger("pollerd").info("stopped")


@dataclass(frozen=True)
class _Begun:
    """Parts whose start needs the database."""

    store: Store
    daemon: Daemon
    resources: contextlib.AsyncExitStack
    """Closes the parts."""


async def _begun(config: Config, instruments: Instruments, listener: socket.socket) -> _Begun | None:
    """Returns the daemon, ready to run; None if it was stopped before the database was available."""
    check_place(config.options.database)
    health = StorageHealth(instruments)
    database = config.shown()["database"][0]

    async def attempt() -> _Begun:
        async with contextlib.AsyncExitStack() as resources:
            return await _begin(config, instruments, health, resources)

    if config.options.no_wait:
        try:
            return await attempt()
        except DatabaseUnavailableError as error:
            raise DatabaseUnavailableError(f"database {database}: {error}") from error

    def serve_meanwhile() -> contextlib.AbstractAsyncContextManager[None]:
        def reason() -> str:
            return health.failure or "not tried yet"

        return served(create_waiting_api(reason, instruments.registry, config.api, pollerd.__version__), listener)

    return await begun(attempt, health, database, serve_meanwhile)


async def _begin(
    config: Config, instruments: Instruments, health: StorageHealth, resources: contextlib.AsyncExitStack
) -> _Begun:
    """Makes one attempt; if it fails, the caller's `resources` close what it opened."""
    store = await _open_store(config)
    resources.push_async_callback(store.close)
    settings = await _with_kept_allocation(config, store)
    settings, fetching = _fitted(settings, config.fetching, _raise_descriptor_limit())
    topic, seeds = read_mission(config.options.topic, config.options.seeds)
    live = LiveSettings(
        daemon=settings,
        scheduling=config.scheduling,
        fetching=fetching,
        topic=topic,
        seeds=seeds,
        rendering=config.rendering,
        notifying=config.notifying,
    )
    rng = np.random.default_rng()
    daemon = await resources.enter_async_context(live_daemon(store, live, instruments, rng, health=health))
    return _Begun(store, daemon, resources.pop_all())


async def _serve(
    config: Config,
    parts: _Begun,
    registry: CollectorRegistry,
    listener: socket.socket,
    watch: Watch | None,
    again: Again | None,
) -> None:
    daemon, store = parts.daemon, parts.store
    api = create_api(daemon.control, store, registry, config.api, pollerd.__version__)
    server = ApiServer(api, _API_DRAIN_SECONDS)
    await server.warm_up()
    gc_tuning.freeze_heap()
    reload = None
    if again is not None:
        tokens = api.state.tokens
        reload = Reload(config, again, daemon=daemon, fetcher=daemon.parts.fetcher, store=store, tokens=tokens)
    await _run_all(config, daemon, server, listener, watch, reload)


async def _run_all(
    config: Config,
    daemon: Daemon,
    server: ApiServer,
    listener: socket.socket,
    watch: Watch | None,
    reload: Reload | None,
) -> None:
    def stop() -> None:
        daemon.stop()
        server.should_exit = True

    async def polling() -> None:
        try:
            await daemon.run()
        finally:
            server.should_exit = True

    async def look_on(watch: Watch) -> None:
        await watch(daemon.control)
        stop()

    async def reading() -> None:
        if config.options.urls is not None:
            await read_list(config.options.urls, daemon.control, sync=config.options.sync)
        if not daemon.control.health.status().sites and config.options.topic is None:  # the crawler finds its own sites
            _say_how_to_add(listener)
        if reload is not None:
            await reload.run()

    async with asyncio.TaskGroup() as group:
        with _signals(stop, reload):
            _say_started(daemon, listener)
            helping = [
                group.create_task(reading(), name="list"),
                group.create_task(gc_tuning.collect_regularly(), name="heap"),
            ]
            if watch is not None:
                helping.append(group.create_task(look_on(watch), name="watch"))
            serving = group.create_task(server.serve(sockets=[listener]), name="api")
            await group.create_task(polling(), name="daemon")
            for task in helping:
                task.cancel()
            await serving


def _say_started(daemon: Daemon, listener: socket.socket) -> None:
    """Logs the start; from now on a signal stops the daemon in order."""
    host, port = listener.getsockname()[:2]
    log, budget = structlog.get_logger("pollerd"), daemon.control.health.status().budget
    log.info("started", version=pollerd.__version__, listen=f"{host}:{port}", budget=budget)


def _say_how_to_add(listener: socket.socket) -> None:
    """Logs how to add sites: there are none, and no list."""
    url = _url_of(listener)
    here = "" if url == DEFAULT_URL else f" --url {url}"
    log = structlog.get_logger("pollerd")
    log.info("no_sites", instead=f"add one: pollerd sites add URL{here}", api=f"{url}/api/v1")


def _url_of(listener: socket.socket) -> str:
    """Returns the URL of the API for clients on this machine."""
    host, port = listener.getsockname()[:2]
    reached = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{reached}]:{port}" if ":" in reached else f"http://{reached}:{port}"


@contextlib.contextmanager
def _signals(stop: Callable[[], None], reload: Reload | None) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    handlers = {signal.SIGINT: stop, signal.SIGTERM: stop}
    if reload is not None:
        handlers[signal.SIGHUP] = _at_hang_up(stop, reload.ask)
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)
            if number == signal.SIGHUP:
                signal.signal(number, signal.SIG_IGN)  # already stopping


def _at_hang_up(stop: Callable[[], None], reload: Callable[[], None]) -> Callable[[], None]:
    """Returns the handler of SIGHUP: reloads, or stops if the controlling terminal has gone."""
    on_terminal = sys.stderr.isatty()
    return lambda: stop() if on_terminal and not sys.stderr.isatty() else reload()


def _bind(settings: ApiSettings) -> socket.socket:
    """Binds the API's socket first, so that a busy port is a clear error before anything else happens."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        raise ConfigError(f"listen: {settings.host}:{settings.port} cannot be bound: {error.strerror}") from error
    return listener


async def _open_store(config: Config) -> Store:
    try:
        return await Store.open(config.options.database, settings=config.storage)
    except SchemaError as error:
        raise SchemaError(f"database {config.shown()['database'][0]}: {error}") from error


def _raise_descriptor_limit() -> int:
    """Raises the limit of file descriptors as far as the system allows, within reason; returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS_WANTED if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS_WANTED)
    if 0 <= soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return soft if soft >= 0 else wanted


def _fitted(settings: DaemonSettings, fetching: FetchSettings, limit: int) -> tuple[DaemonSettings, FetchSettings]:
    """Lowers the number of concurrent polls and the lifetime of idle connections to fit `limit` descriptors.

    Otherwise connections to many hosts exhaust them, and sites are blamed for our own failures.
    """
    room = max(limit - _DESCRIPTORS_OF_OURS, 2)
    inflight = min(settings.max_inflight, room // 2)
    keepalive = min(fetching.keepalive_seconds, (room - inflight) / settings.budget)
    if inflight < settings.max_inflight or keepalive < fetching.keepalive_seconds:
        log = structlog.get_logger("pollerd")
        log.info("descriptors_scarce", limit=limit, max_inflight=inflight, keepalive_seconds=round(keepalive, 3))
    return replace(settings, max_inflight=inflight), replace(fetching, keepalive_seconds=keepalive)


async def _with_kept_allocation(config: Config, store: Store) -> DaemonSettings:
    """Restores what was set over REST before a restart, unless a flag, variable or file overrides it."""
    kept = await store.load_allocation()
    settings = config.daemon
    if kept is None:
        return settings
    for option in ("allocator", "objective", "budget"):
        if not config.is_set(option):
            settings = replace(settings, **{option: getattr(kept, option)})
    return settings
