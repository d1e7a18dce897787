"""What a task raises while it is ended is logged, and raised nowhere."""

from __future__ import annotations

import asyncio

from structlog.testing import capture_logs

from pollerd.logs import end_tasks


async def until_cancelled(error: Exception | None = None) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        if error is not None:
            raise error


async def test_faults_are_logged_and_others_are_not() -> None:
    quiet, known, faulty = (
        asyncio.create_task(until_cancelled(), name="quiet"),
        asyncio.create_task(until_cancelled(OSError("gone")), name="known"),
        asyncio.create_task(until_cancelled(ValueError("ours")), name="faulty"),
    )
    await asyncio.sleep(0)
    with capture_logs() as logs:
        await end_tasks(quiet, known, faulty, expected=(OSError,))
    assert quiet.cancelled()
    assert known.done()
    assert [(one["event"], one["task"], one["exc_info"]) for one in logs] == [
        ("task_fault", "faulty", faulty.exception())
    ]


async def test_what_was_raised_before_is_the_callers() -> None:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    done.set_exception(ValueError("read by who waited for it"))
    with capture_logs() as logs:
        await end_tasks(done)
    assert logs == []
