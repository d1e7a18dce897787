"""The entry point of the daemon: builds it from the settings and runs it with its API. Reads top to bottom."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import structlog
import uvloop
from fastapi import FastAPI
from prometheus_client import CollectorRegistry

import pollerd
from pollerd.api.application import create_api, create_waiting_api
from pollerd.api.auth.sign_in import link as first_user_link
from pollerd.api.server import MAX_CONNECTIONS, Admission, ApiServer
from pollerd.api.settings import ApiSettings
from pollerd.app import gc_tuning
from pollerd.app.build import LiveSettings, live_daemon
from pollerd.app.config import Config
from pollerd.app.environment import DEFAULT_URL
from pollerd.app.examples import ExampleSites
from pollerd.app.options import Options
from pollerd.app.reload import Reload, warn_of_short_tokens
from pollerd.app.rooms import CRAWLER
from pollerd.app.url_list import read_list
from pollerd.daemon.control.control import Control
from pollerd.daemon.daemon import Daemon
from pollerd.daemon.faults import StorageHealth
from pollerd.daemon.nodes.membership import join
from pollerd.daemon.settings import ALLOCATION_SETTINGS, DaemonSettings, shadows_beside
from pollerd.daemon.yields import YieldLog
from pollerd.errors import ConfigError, DatabaseUnavailableError, SchemaError
from pollerd.fetching.settings import FetchSettings
from pollerd.logs import RECENT, end_tasks
from pollerd.quantities import duration
from pollerd.storage.engine import check_place
from pollerd.storage.node_values import NodeInfo
from pollerd.storage.store import Store
from pollerd.storage.values import AllocationRow
from pollerd.telemetry import Instruments
from pollerd.texts import _

if TYPE_CHECKING:
    from pollerd.crawler.topics import TopicSettings

# The start of the parts that need the database, retried while it is unreachable, refuses or is full.

_FIRST_SECONDS, _MAX_SECONDS = 0.5, 5.0
_DRAIN_SECONDS = 1

T = TypeVar("T")


async def begun(
    attempt: Callable[[], Awaitable[T]],
    health: StorageHealth,
    database: str,
    serve: Callable[[], contextlib.AbstractAsyncContextManager[None]],
) -> T | None:
    """Returns the result of `attempt` once the database is available; None if SIGINT or SIGTERM came first.

    Meanwhile `health` has the reason, and `serve` answers requests. `database`: its name in the log. Only
    DatabaseUnavailableError is retried: waiting does not help for others.
    """
    with _stop_requested() as stop:
        trying = asyncio.create_task(_repeated(attempt, health, database, serve), name="start")
        stopped = asyncio.create_task(stop.wait(), name="stop")
        try:
            await asyncio.wait({trying, stopped}, return_when=asyncio.FIRST_COMPLETED)
            return trying.result() if trying.done() else None
        finally:
            await end_tasks(trying, stopped)


async def _repeated(
    attempt: Callable[[], Awaitable[T]],
    health: StorageHealth,
    database: str,
    serve: Callable[[], contextlib.AbstractAsyncContextManager[None]],
) -> T:
    pause = _FIRST_SECONDS
    async with contextlib.AsyncExitStack() as meanwhile:
        while True:
            try:
                made = await attempt()
            except DatabaseUnavailableError as error:
                health.failed(
                    "start", str(error), database=database, effect=_("the start waits; --no-wait ends it instead")
                )
                if pause == _FIRST_SECONDS:
                    await meanwhile.enter_async_context(serve())
                await asyncio.sleep(pause)
                pause = min(pause * 2, _MAX_SECONDS)
            else:
                health.works("start")
                return made


@contextlib.asynccontextmanager
async def served(app: FastAPI, listener: socket.socket) -> AsyncIterator[None]:
    """Serves on a copy of the socket: the server closes its own, and callers in between wait in the queue."""
    server = ApiServer(app, _DRAIN_SECONDS)
    serving = asyncio.create_task(server.serve(sockets=[listener.dup()]), name="waiting-api")
    try:
        yield
    finally:
        server.should_exit = True
        await serving


@contextlib.contextmanager
def _stop_requested() -> Iterator[asyncio.Event]:
    """Yields an event set by the signals that stop the daemon, from its start on."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        yield stop
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


Watch = Callable[[Control], Awaitable[None]]
Again = Callable[[], Config]
_DESCRIPTORS_WANTED = 65_536
_DESCRIPTORS_OF_OURS = 64
"""Reserved for the database, the list and others."""
_API_CONNECTIONS_LEAST = 16
_BACKLOG = 2048
"""Connections that wait to be accepted, as many as the server takes."""
_API_DRAIN_SECONDS = 5
"""Maximum time for API requests under way at shutdown: a client that never finishes must not block it."""


def run(config: Config, watch: Watch | None = None, again: Again | None = None) -> None:
    """Runs the daemon until SIGINT or SIGTERM. `watch` observes it (a status line); when it returns, the daemon stops.

    `again` reads the settings again, on SIGHUP.
    """
    if again is not None:
        signal.signal(signal.SIGHUP, _keep_hang_up)  # the start goes on; what it asks for is done afterwards
    gc_tuning.begin()
    uvloop.run(serve(config, watch, again))


def mission(options: Options) -> tuple[TopicSettings | None, list[str]]:
    """Reads the topic and the seeds of the focused crawler, an optional room. Raises as `read_mission` does."""
    if options.topic is None and options.seeds is None:
        return None, []
    with CRAWLER.needed():
        from pollerd.crawler.room import read_mission

    return read_mission(options.topic, options.seeds)


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
    descriptors: int
    """Limit of descriptors."""
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
            return health.failure or _("not tried yet")

        return served(create_waiting_api(reason, instruments.registry, config.api, pollerd.__version__), listener)

    return await begun(attempt, health, database, serve_meanwhile)


async def _begin(
    config: Config, instruments: Instruments, health: StorageHealth, resources: contextlib.AsyncExitStack
) -> _Begun:
    """Makes one attempt; if it fails, the caller's `resources` close what it opened."""
    store, settings = await _opened(config)
    resources.push_async_callback(store.close)
    descriptors = _raise_descriptor_limit()
    settings, fetching = _fitted(settings, config.fetching, descriptors)
    topic, seeds = mission(config.options)
    live = LiveSettings(
        daemon=settings,
        scheduling=config.scheduling,
        fetching=fetching,
        topic=topic,
        seeds=seeds,
        rendering=config.rendering,
        notifying=config.notifying,
        signals=config.signals,
    )
    rng = np.random.default_rng()
    daemon = await resources.enter_async_context(live_daemon(store, live, instruments, rng, health=health))
    return _Begun(store, daemon, descriptors, resources.pop_all())


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
    shown, examples = config.shown(), ExampleSites()
    if not config.options.no_web:
        from pollerd.web.application import add_pages  # what a daemon without pages does not need

        add_pages(api, shown, RECENT.at_least, examples)
        await _say_first_user(config, api, listener)
    refused = daemon.parts.runtime.instruments.api_connections_refused
    server = ApiServer(api, _API_DRAIN_SECONDS, Admission(_api_connections(parts.descriptors), refused.inc))
    await server.warm_up()
    gc_tuning.freeze_heap()
    reload = None
    if again is not None:
        tokens = api.state.tokens
        reload = Reload(
            config,
            again,
            shown=shown,
            daemon=daemon,
            fetcher=daemon.parts.fetcher,
            renderer=daemon.parts.renderer,
            store=store,
            tokens=tokens,
        )
    yields = None
    if not config.options.no_web:
        runtime, control = daemon.parts.runtime, daemon.control
        yields = YieldLog(
            explainer=control.explainer,
            history=store.history,
            clock=runtime.clock,
            instruments=runtime.instruments,
            by_state=lambda: control.health.status().by_state,
        ).run
    try:
        await _run_all(config, daemon, server, listener, watch, reload, yields)
    finally:
        await examples.stop()


async def _run_all(
    config: Config,
    daemon: Daemon,
    server: ApiServer,
    listener: socket.socket,
    watch: Watch | None,
    reload: Reload | None,
    yields: Callable[[], Coroutine[Any, Any, None]] | None,
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
        # The crawler finds its own sites, and those of a node come with its partitions.
        if not daemon.control.health.status().sites and config.options.topic is None and config.options.node is None:
            _say_how_to_add(listener)
        if reload is not None:
            await reload.run()

    async with asyncio.TaskGroup() as group:
        with _signals(stop, reload):
            _say_started(daemon, listener)
            _say_new_defaults(config, daemon.parts.store.previous_schema)
            warn_of_short_tokens(config)
            watching = None if watch is None else partial(look_on, watch)
            store = daemon.parts.store
            news = store.listen_for_changes if store.several_writers else None
            work = {
                "list": reading,
                "heap": gc_tuning.collect_regularly,
                "watch": watching,
                "yields": yields,
                "news": news,
            }
            helping = [group.create_task(start(), name=name) for name, start in work.items() if start is not None]
            serving = group.create_task(server.serve(sockets=[listener]), name="api")
            await group.create_task(polling(), name="daemon")
            for task in helping:
                task.cancel()
            await serving


def _say_started(daemon: Daemon, listener: socket.socket) -> None:
    """Logs the start; from now on a signal stops the daemon in order, and whoever reads the log can connect."""
    listener.listen(_BACKLOG)
    host, port = listener.getsockname()[:2]
    log, budget = structlog.get_logger("pollerd"), daemon.control.health.status().budget
    log.info("started", version=pollerd.__version__, listen=f"{host}:{port}", budget=budget)


def _say_new_defaults(config: Config, previous_schema: str | None) -> None:
    """Logs the defaults that came with migrations of this start, if the user did not choose a value."""
    log = structlog.get_logger("pollerd")
    if previous_schema is None:
        return
    if previous_schema < "0040" and not (config.is_set("min_saving") or config.is_set("min_yield")):
        now, hint = duration(config.options.min_saving), _("to keep the previous one: --min-saving 0 --min-yield 1%")
        log.info("new_default", setting="min_saving", value=now, previous="min_yield 1%", hint=hint)
    if previous_schema < "0034" and not config.is_set("respect_ttl"):
        now = config.options.respect_ttl.name.lower()
        hint = _("to keep the previous one: --respect-ttl off")
        log.info("new_default", setting="respect_ttl", value=now, previous="off", hint=hint)


async def _say_first_user(config: Config, api: FastAPI, listener: socket.socket) -> None:
    """Logs the link by which the first user is made, if everybody must sign in and nobody can with a name."""
    recognition = api.state.recognition
    if config.api.entrance.user_header is not None or not await recognition.needed():
        return
    if (await recognition.existing()).users:
        return
    root = (config.options.public_url or _url_of(listener)).rstrip("/")
    link = first_user_link(root, api.state.first_user.make())
    hint = _("open the URL to create the first user; it works once, for one hour")
    structlog.get_logger("pollerd").warning("no_users", url=link, hint=hint, not_kept=True)


def _say_how_to_add(listener: socket.socket) -> None:
    """Logs how to add sites: there are none, and no list."""
    url = _url_of(listener)
    here = "" if url == DEFAULT_URL else f" --url {url}"
    log = structlog.get_logger("pollerd")
    log.info("no_sites", hint=_("add one: pollerd sites add URL{here}", here=here), url=url)


def _url_of(listener: socket.socket) -> str:
    """Returns the URL of the API for clients on this machine."""
    host, port = listener.getsockname()[:2]
    reached = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{reached}]:{port}" if ":" in reached else f"http://{reached}:{port}"


_hang_ups = list[int]()
"""Signals that came during the start, before anything could be loaded again."""


def _keep_hang_up(number: int, _frame: object) -> None:
    _hang_ups.append(number)


@contextlib.contextmanager
def _signals(stop: Callable[[], None], reload: Reload | None) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    handlers = {signal.SIGINT: stop, signal.SIGTERM: stop}
    if reload is not None:
        handlers[signal.SIGHUP] = _at_hang_up(stop, reload.ask)
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    if _hang_ups and reload is not None:
        _hang_ups.clear()
        handlers[signal.SIGHUP]()
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
        raise ConfigError(
            _(
                "listen: {host}:{port} cannot be bound: {reason}",
                host=settings.host,
                port=settings.port,
                reason=error.strerror,
            )
        ) from error
    return listener


async def _opened(config: Config) -> tuple[Store, DaemonSettings]:
    """Opens the database, as one of several nodes if that is wanted; returns the settings that are in force then."""
    node = _node_of(config)
    store = await _open_store(config, node)
    try:
        if store.shared is None:
            return store, await _with_kept_allocation(config, store)
        chosen = [option for option in ALLOCATION_SETTINGS if config.is_set(option)]
        chosen += ["shadows"] if config.is_set("shadow") else []
        return store, await join(store.shared, config.daemon, chosen)
    except BaseException:
        await store.close()
        raise


async def _open_store(config: Config, node: NodeInfo | None) -> Store:
    try:
        return await Store.open(config.options.database, settings=config.storage, node=node)
    except SchemaError as error:
        raise SchemaError(f"database {config.shown()['database'][0]}: {error}") from error


def _node_of(config: Config) -> NodeInfo | None:
    """Returns this node; None: the daemon is alone."""
    options = config.options
    if options.node_address is not None:
        reason, hint = _("nodes send requests through the database"), _("remove it: the next version does not know it")
        structlog.get_logger("pollerd").warning(
            "setting_without_effect", setting="node_address", reason=reason, hint=hint
        )
    if options.node is None:
        return None
    if options.topic is not None:
        log = structlog.get_logger("pollerd")
        log.warning(
            "node_runs_alone", topic=str(options.topic), reason="the focused crawler is not split over several nodes"
        )
        return None
    name = socket.gethostname() if options.node == "auto" else options.node
    return NodeInfo(name=name, version=pollerd.__version__, wanted=options.nodes_wanted)


def _raise_descriptor_limit() -> int:
    """Raises the limit of file descriptors as far as the system allows, within reason; returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _DESCRIPTORS_WANTED if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS_WANTED)
    if 0 <= soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        return limit
    return soft if soft >= 0 else limit


def _api_connections(limit: int) -> int:
    """Returns how many connections the API takes at once: an eighth of the descriptors, so that polls keep theirs."""
    return min(max(limit // 8, _API_CONNECTIONS_LEAST), MAX_CONNECTIONS)


def _fitted(settings: DaemonSettings, fetching: FetchSettings, limit: int) -> tuple[DaemonSettings, FetchSettings]:
    """Lowers the number of concurrent polls and the lifetime of idle connections to fit `limit` descriptors.

    Otherwise connections to many hosts exhaust them, and sites are blamed for our own failures.
    """
    room = max(limit - _DESCRIPTORS_OF_OURS - _api_connections(limit), 2)
    inflight = min(settings.max_inflight, room // 2)
    keepalive = min(fetching.keepalive_seconds, (room - inflight) / settings.budget)
    if inflight < settings.max_inflight or keepalive < fetching.keepalive_seconds:
        log = structlog.get_logger("pollerd")
        log.info("descriptors_scarce", limit=limit, max_inflight=inflight, keepalive_seconds=round(keepalive, 3))
    return replace(settings, max_inflight=inflight), replace(fetching, keepalive_seconds=keepalive)


async def _with_kept_allocation(config: Config, store: Store) -> DaemonSettings:
    """Restores what was set over REST before a restart, unless a flag, variable or file overrides it."""
    kept = await store.allocation.load()
    settings = config.daemon
    if kept is None:
        return settings
    for option in ALLOCATION_SETTINGS:
        if not config.is_set(option) and getattr(kept, option) is not None:
            settings = replace(settings, **{option: getattr(kept, option)})
    return _with_kept_shadows(config, kept, settings)


def _with_kept_shadows(config: Config, kept: AllocationRow | None, settings: DaemonSettings) -> DaemonSettings:
    if kept is None or config.is_set("shadow"):
        return replace(settings, shadows=config.daemon.shadows)
    return replace(settings, shadows=shadows_beside(settings.allocator, kept.shadows))
