"""Ends tasks that nobody waits for any more, without losing what they raise."""

from __future__ import annotations

import asyncio
from typing import Any

import structlog

_log = structlog.get_logger("pollerd.tasks")


async def end_tasks(*tasks: asyncio.Future[Any], expected: tuple[type[Exception], ...] = ()) -> None:
    """Cancels tasks and waits for their end; what one raises meanwhile, but for what is expected, is logged.

    What a task had raised before is its caller's, who could have read it.
    """
    running = [task for task in tasks if not task.done()]
    for task in running:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for task in running:
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, expected):
            name = task.get_name() if isinstance(task, asyncio.Task) else ""
            _log.error("task_fault", task=name, exc_info=error)
