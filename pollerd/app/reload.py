"""The reload of settings and list on SIGHUP, while polling continues. An invalid file changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from typing import TYPE_CHECKING

import structlog

from pollerd.api.auth.recognition import Tokens
from pollerd.api.settings import SHORTEST_TOKEN
from pollerd.app.config import Config
from pollerd.app.options import NEEDS_RESTART, OPTIONS, Applies
from pollerd.app.url_list import list_at_once, read_list
from pollerd.daemon.daemon import Daemon
from pollerd.daemon.settings import ALLOCATION_SETTINGS
from pollerd.errors import PollerdError
from pollerd.fetching.fetcher import Fetcher
from pollerd.logs import set_up_logs
from pollerd.storage.store import Store
from pollerd.texts import _

if TYPE_CHECKING:  # loaded where a browser is named
    from pollerd.rendering.renderer import Renderer


def warn_of_short_tokens(config: Config) -> None:
    """Logs which tokens the next version will refuse."""
    for name in config.short_tokens():
        reason, effect = (
            _("it has fewer than {shortest_token} characters", shortest_token=SHORTEST_TOKEN),
            _("the next version refuses it"),
        )
        structlog.get_logger("pollerd").warning("short_token", setting=name, reason=reason, effect=effect)


class Reload:
    """Reads settings and list again, and applies the changes to the running daemon."""

    def __init__(  # noqa: PLR0913 (what a reload reaches)
        self,
        config: Config,
        again: Callable[[], Config],
        *,
        shown: dict[str, tuple[str, str]],
        daemon: Daemon,
        fetcher: Fetcher,
        renderer: Renderer | None,
        store: Store,
        tokens: Tokens,
    ) -> None:
        """`config`: settings in force; `again` reads them again, and raises PollerdError if they are invalid; `shown`:
        those in force as the pages show them, kept up to date.
        """
        self._config, self._again, self._shown = config, again, shown
        self._daemon, self._fetcher, self._renderer = daemon, fetcher, renderer
        self._store, self._tokens = store, tokens
        self._wanted = asyncio.Event()
        self._log = structlog.get_logger("pollerd.app.reload")

    def ask(self) -> None:
        """Requests a reload; pending requests are combined."""
        self._wanted.set()

    async def run(self) -> None:
        """Reloads on each request, until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                await self._reload()
            except PollerdError as error:
                self._log.error("reload_failed", reason=str(error), effect="the previous settings stay in force")

    async def _reload(self) -> None:
        config = await asyncio.to_thread(self._again)
        lines = await self._list_of(config)
        changed = self._changed(config)
        await self._apply(config, changed - NEEDS_RESTART)
        waiting = sorted(changed & NEEDS_RESTART)
        if waiting:
            self._log.warning("restart_needed", settings=", ".join(waiting))
        in_force = {name: getattr(self._config.options, name) for name in waiting}
        self._config = replace(config, options=replace(config.options, **in_force))
        self._shown.update(self._config.shown())
        warn_of_short_tokens(config)
        self._log.info("reloaded", changed=", ".join(sorted(changed - NEEDS_RESTART)) or "nothing")
        if lines is not None and config.options.urls is not None:
            await read_list(config.options.urls, self._daemon.control, sync=config.options.sync, file=lines)

    async def _list_of(self, config: Config) -> BytesIO | None:
        path = config.options.urls
        if path is None:
            return None
        if path.is_fifo():
            self._log.warning("list_skipped", file=str(path), reason="a pipe can be read only once")
            return None
        return await asyncio.to_thread(list_at_once, path)

    def _changed(self, config: Config) -> frozenset[str]:
        """Returns the options that differ from before. Others keep what was set over REST meanwhile."""
        before, after = self._config.options, config.options
        applied = (name for name, option in OPTIONS.items() if option.applies is not Applies.USE)
        return frozenset(name for name in applied if getattr(after, name) != getattr(before, name))

    async def _apply(self, config: Config, changed: frozenset[str]) -> None:
        """Applies the steps that may be refused first: then nothing has changed."""
        self._tokens.check(config.api)
        fetching = replace(
            config.fetching,
            max_connections=self._fetcher.settings.max_connections,
            keepalive_seconds=self._fetcher.settings.keepalive_seconds,
        )
        with self._fetcher.prepared(fetching) as take_over:
            allocation = {name: getattr(config.options, name) for name in ALLOCATION_SETTINGS if name in changed}
            if "shadow" in changed:
                allocation["shadows"] = config.options.shadow
            if allocation:
                await self._daemon.control.allocation.set(**allocation)
            take_over()
        if self._renderer is not None:
            self._renderer.adopt(config.rendering, fetching)
        self._tokens.put_in_force(config.api)
        self._daemon.adopt(config.scheduling, full_get_every=config.daemon.full_get_every)
        self._store.adopt(config.storage)
        if {"log_format", "log_level"} & changed:
            set_up_logs(config.options.log_format, config.options.log_level)
