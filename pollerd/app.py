"""The composition root: settings in, running daemon out. Reads top to bottom."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import resource
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np
import structlog
import uvloop
from prometheus_client import CollectorRegistry

import pollerd
from pollerd.api import ApiServer, ApiSettings, Line, create_api, parse_text
from pollerd.config import Config
from pollerd.daemon import Control, Daemon, DaemonSettings, SteadyClock
from pollerd.errors import ConfigError, DatabaseUnavailableError, InvalidValueError, SchemaError
from pollerd.fetching import Fetcher, FetchSettings
from pollerd.model import SiteSpec
from pollerd.storage import Store
from pollerd.telemetry import Instruments

Watch = Callable[[Control], Awaitable[None]]
_LIST_BLOCK = 5_000
_REJECTED_SHOWN = 20
_DESCRIPTORS_WANTED = 65_536
_DESCRIPTORS_OF_OURS = 64
"""Set aside for the database, the API and the rest."""
_API_DRAIN_SECONDS = 5
"""How long requests under way may hold up the end: a client that never finishes must not."""


def run(config: Config, watch: Watch | None = None) -> None:
    """Runs the daemon until SIGINT or SIGTERM. `watch` looks on (a status line); when it returns, the daemon ends."""
    uvloop.run(serve(config, watch))


async def serve(config: Config, watch: Watch | None = None) -> None:
    """The daemon with its API, in one loop. Any task that dies takes all down, with its cause."""
    log = structlog.get_logger("pollerd")
    listener = _bind(config.api)
    store = await _open_store(config)
    try:
        registry = CollectorRegistry()
        clock = SteadyClock()
        settings = await _with_kept_allocation(config, store)
        settings, fetching = _fitted(settings, config.fetching, _raise_descriptor_limit())
        async with Fetcher(fetching, clock=clock) as fetcher:
            daemon = await Daemon.create(
                store,
                fetcher,
                settings,
                config.scheduling,
                Instruments(registry, pollerd.__version__),
                np.random.default_rng(),
                clock,
            )
            api = create_api(daemon.control, store, registry, config.api, pollerd.__version__)
            server = ApiServer(api, _API_DRAIN_SECONDS)
            _tune_gc()
            host, port = listener.getsockname()[:2]
            budget = daemon.control.status().budget
            log.info("started", version=pollerd.__version__, listen=f"{host}:{port}", budget=budget)
            await _run_all(config, daemon, server, listener, watch)
            log.info("stopped")
    finally:
        listener.close()
        await store.close()


async def _run_all(
    config: Config, daemon: Daemon, server: ApiServer, listener: socket.socket, watch: Watch | None
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

    async with asyncio.TaskGroup() as group:
        with _signals(stop):
            looking_on = [] if watch is None else [group.create_task(look_on(watch), name="watch")]
            reading = group.create_task(_read_list(config, daemon.control), name="list")
            serving = group.create_task(server.serve(sockets=[listener]), name="api")
            await group.create_task(polling(), name="daemon")
            reading.cancel()
            for task in looking_on:
                task.cancel()
            await serving


@contextlib.contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def _bind(settings: ApiSettings) -> socket.socket:
    """The API's socket, bound first, so that a busy port is a clear error before anything else happens."""
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
    except (DatabaseUnavailableError, SchemaError) as error:
        raise type(error)(f"database {config.shown()['database'][0]}: {error}") from error


def _raise_descriptor_limit() -> int:
    """Takes as many descriptors as the system gives, within reason; returns how many there are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS_WANTED if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS_WANTED)
    if 0 <= soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return soft if soft >= 0 else wanted


def _fitted(settings: DaemonSettings, fetching: FetchSettings, limit: int) -> tuple[DaemonSettings, FetchSettings]:
    """The settings with fewer polls at once and shorter-lived idle connections where `limit` descriptors ask for it.

    Else connections to many hosts use them up, and sites are blamed for failures of ours.
    """
    room = max(limit - _DESCRIPTORS_OF_OURS, 2)
    inflight = min(settings.max_inflight, room // 2)
    keepalive = min(fetching.keepalive_seconds, (room - inflight) / settings.budget)
    if inflight < settings.max_inflight or keepalive < fetching.keepalive_seconds:
        log = structlog.get_logger("pollerd")
        log.info("descriptors_scarce", limit=limit, max_inflight=inflight, keepalive_seconds=round(keepalive, 3))
    return replace(settings, max_inflight=inflight), replace(fetching, keepalive_seconds=keepalive)


async def _with_kept_allocation(config: Config, store: Store) -> DaemonSettings:
    """What was set over REST stays over a restart, unless the user says otherwise by flag, variable or file."""
    kept = await store.load_allocation()
    settings = config.daemon
    if kept is None:
        return settings
    for option in ("allocator", "objective", "budget"):
        if not config.is_set(option):
            settings = replace(settings, **{option: getattr(kept, option)})
    return settings


async def _read_list(config: Config, control: Control) -> None:
    """Adds what is new in the URL list, block by block; with --sync also removes what is not in it."""
    path = config.options.urls
    if path is None:
        return
    log = structlog.get_logger("pollerd.list").bind(file=str(path))
    sync, listed, rejected = config.options.sync, set[str](), 0
    added = existing = deleted = removed = 0
    lines = _lines(path)
    while block := await asyncio.to_thread(list, islice(lines, _LIST_BLOCK)):
        for line, refusal in block:
            if isinstance(refusal, InvalidValueError):
                rejected += 1
                if rejected <= _REJECTED_SHOWN:
                    log.warning("line_rejected", line=line, reason=str(refusal))
        specs = [spec for _, spec in block if isinstance(spec, SiteSpec)]
        if sync:
            listed.update(spec.url for spec in specs)
        result = await control.add_sites(specs, respect_deleted=not sync)
        for _, error in result.refused:
            log.warning("site_refused", reason=str(error))
        added, existing = added + len(result.added), existing + len(result.existing)
        deleted += len(result.deleted)
    if sync and (listed or not rejected):
        removed = await control.delete_missing(listed)
    elif sync:
        log.error("sync_refused", reason="no line of the list can be used: nothing is removed")
    log.info(
        "list_read", added=added, existing=existing, left_out_as_deleted=deleted, removed=removed, rejected=rejected
    )


def check_list(path: Path) -> None:
    """Raises ConfigError where the list cannot be read."""
    if not path.is_fifo():  # what is read of a pipe is gone
        _open(path).close()


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise ConfigError(f"urls: {path} cannot be read: {error.strerror}") from error


def _lines(path: Path) -> Iterator[Line]:
    """The list as it is asked for: a million sites need not be held at once."""
    with _open(path) as file:
        yield from parse_text(file)


def _tune_gc() -> None:
    """What was loaded at the start stays: the collector need not look at it again, nor so often at the rest."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 100)
