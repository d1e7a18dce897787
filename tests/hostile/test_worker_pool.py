"""Work in other processes: whatever it does to them, the daemon goes on, and nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from pollerd import texts
from pollerd.daemon.workers import MEMORY_BYTES, Effort, WorkerPool
from pollerd.detection.selection.preview import preview
from pollerd.detection.selection.selection import canonical
from pollerd.errors import InvalidValueError, TooHeavyError
from pollerd.lists.sitemaps import read_listing
from pollerd.notifications.templates import TemplateError, check
from pollerd.texts import speaking
from tests.support.origin import until
from tests.support.pseudo import PseudoLanguage, untranslated


@pytest.fixture
async def worker_pool() -> AsyncIterator[WorkerPool]:
    shop = WorkerPool(workers=1)
    yield shop
    shop.close()


def process(_: int) -> int:
    return os.getpid()


def refuse(value: int) -> int:
    raise ValueError(f"not {value}")


def crash(value: int) -> int:
    os.kill(os.getpid(), signal.SIGSEGV)
    return value


def stuck(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def busy(seconds: float) -> float:
    began = time.monotonic()
    while time.monotonic() < began + seconds:
        pass
    return seconds


def greedy(size: int) -> int:
    return len(bytearray(size))


class LocalError(Exception):
    """Cannot be made again from its arguments."""

    def __init__(self, one: int, other: int) -> None:
        super().__init__(f"{one} and {other}")


def refuse_oddly(value: int) -> int:
    raise LocalError(value, value + 1)


def echo(value: bytes) -> bytes:
    return value


def learn_pseudo(_: int) -> str:
    """Has the process know the language that no file has; it is asked for by its code, as those that have one."""
    texts.LOADED[PseudoLanguage.code] = PseudoLanguage()
    return __name__


async def test_what_work_says_is_in_the_language_of_who_asked(worker_pool: WorkerPool) -> None:
    """Errors, reasons in results, and what the pool says of work; each piece of work in the language of its caller."""
    await worker_pool.do(learn_pseudo, 0)
    settings = canonical({"default": {"conditions": {"appears": {"text": "in stock"}}}})
    page: tuple[object, ...] = (settings, b"<p>7 EUR</p>", "text/html", "https://7.example/", {"default": b"6 EUR"}, {})
    listing = ("sitemap", b"", None, "https://7.example/", "re:(7")
    with speaking(PseudoLanguage()):
        with pytest.raises(InvalidValueError) as refused:
            await worker_pool.do(read_listing, *listing)
        with pytest.raises(TemplateError) as template:
            await worker_pool.do(check, "{{ 7 | upcase }}")
        (shown,) = await worker_pool.do(preview, *page)
        assert shown.now is not None
        with pytest.raises(TooHeavyError) as heavy:
            await worker_pool.do(greedy, MEMORY_BYTES)
    said = [refused.value.allowed, str(template.value), str(heavy.value), shown.now.why]
    assert all(text.startswith("⟦") for text in said), said
    assert [
        untranslated(text, ("in stock", "upcase", "upper", "MiB", "RE2", "missing ):", "re:")) for text in said
    ] == [[]] * len(said)
    with pytest.raises(InvalidValueError, match="must be an RE2 expression"):
        await worker_pool.do(read_listing, *listing)


async def test_one_process_serves_many(worker_pool: WorkerPool) -> None:
    pids = {await worker_pool.do(process, n) for n in range(3)}
    assert len(pids) == 1
    assert os.getpid() not in pids


async def test_what_work_raises_comes_back(worker_pool: WorkerPool) -> None:
    with pytest.raises(ValueError, match="not 3"):
        await worker_pool.do(refuse, 3)
    with pytest.raises(RuntimeError, match="LocalError: 3 and 4"):
        await worker_pool.do(refuse_oddly, 3)


async def test_work_may_be_large(worker_pool: WorkerPool) -> None:
    large = os.urandom(20_000_000)
    assert await worker_pool.do(echo, large) == large
    assert await worker_pool.do(echo, b"") == b""


async def test_a_page_that_kills_its_process_harms_no_other(worker_pool: WorkerPool) -> None:
    with pytest.raises(TooHeavyError, match="its process ended twice"):
        await worker_pool.do(crash, 1)
    assert await worker_pool.do(process, 1) != os.getpid()


@pytest.mark.parametrize("work", [stuck, busy])
async def test_work_without_an_end_is_broken_off(work: Callable[[float], float]) -> None:
    pool = WorkerPool(workers=1, patience_seconds=0.2)
    try:
        with pytest.raises(TooHeavyError, match=r"it takes more than 0\.2 s of CPU time"):
            await pool.do(work, 3_600.0)
        assert await pool.do(process, 1) != os.getpid()
    finally:
        pool.close()


async def test_signals_to_the_group_are_not_the_workers(worker_pool: WorkerPool) -> None:
    pid = await worker_pool.do(process, 1)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(pid, number)
    assert await worker_pool.do(process, 1) == pid


def alive(pid: int) -> bool:
    """Whether the process is there, and more than a zombie."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_closing_ends_the_processes_whatever_they_are_at() -> None:
    shop = WorkerPool(workers=1)
    pid = await shop.do(process, 1)
    work = asyncio.create_task(shop.do(stuck, 3_600.0))
    await asyncio.sleep(0.1)
    work.cancel()
    shop.close()
    await until(lambda: not alive(pid))
    with pytest.raises(asyncio.CancelledError):
        await work


_DAEMON = """
import asyncio, os, sys
from pollerd.daemon.workers import MEMORY_BYTES, Effort, WorkerPool
from pollerd.errors import TooHeavyError
from tests.hostile.test_worker_pool import process

async def main():
    pool = WorkerPool(workers=1)  # held: the processes of one that nobody holds end with it
    print(await pool.do(process, 1), flush=True)
    await asyncio.sleep(3600)

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
async def test_killing_the_daemon_ends_the_processes() -> None:
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _DAEMON, stdout=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONPATH": os.getcwd()}
    )
    assert parent.stdout is not None
    pid = int(await asyncio.wait_for(parent.stdout.readline(), 60))
    assert alive(pid)
    parent.kill()
    await parent.wait()
    await until(lambda: not alive(pid))


async def test_every_process_has_a_limit_of_memory(worker_pool: WorkerPool) -> None:
    pid = await worker_pool.do(process, 1)
    with pytest.raises(TooHeavyError, match="448 MiB of memory"):
        await worker_pool.do(greedy, 2 * MEMORY_BYTES)
    assert await worker_pool.do(greedy, MEMORY_BYTES // 2) == MEMORY_BYTES // 2
    assert await worker_pool.do(process, 1) == pid


async def test_work_that_ends_its_process_ends_no_other() -> None:
    pool = WorkerPool(workers=2)
    try:
        pids = set(await asyncio.gather(*(pool.do(process, n) for n in range(2))))
        slow = asyncio.create_task(pool.do(stuck, 0.5))
        with pytest.raises(TooHeavyError):
            await pool.do(crash, 1)
        assert await slow == 0.5
        assert {await pool.do(process, n) for n in range(2)} & pids
    finally:
        pool.close()


async def test_a_process_that_ended_while_idle_is_replaced(worker_pool: WorkerPool) -> None:
    pid = await worker_pool.do(process, 1)
    os.kill(pid, signal.SIGKILL)
    await until(lambda: not alive(pid))
    assert await worker_pool.do(process, 1) != pid


async def test_cpu_time_is_counted_for_whom_it_is_spent(worker_pool: WorkerPool) -> None:
    heavy, light = Effort("heavy"), Effort("light")
    await worker_pool.do(busy, 0.3, effort=heavy)
    before = heavy.seconds
    assert before > 0.0
    await worker_pool.do(stuck, 0.3, effort=light)
    assert light.seconds < before
    await worker_pool.do(busy, 0.3, effort=heavy)
    assert heavy.seconds > before


async def test_a_host_that_used_little_goes_before_one_that_used_much(worker_pool: WorkerPool) -> None:
    done: list[str] = []

    async def work(host: str, seconds: float) -> None:
        await worker_pool.do(busy, seconds, effort=Effort(host))
        done.append(host)

    await work("feed", 0.3)
    tasks = [asyncio.create_task(work("feed", 0.3)) for _ in range(4)]
    await asyncio.sleep(0)
    tasks += [asyncio.create_task(work("page", 0.0)) for _ in range(3)]
    await asyncio.gather(*tasks)
    assert done == ["feed", "feed", *["page"] * 3, *["feed"] * 3]


_PROGRAM = """
import asyncio
from pollerd.daemon.workers import WorkerPool
from tests.hostile.test_worker_pool import process

if __name__ == "__main__":
    pool = WorkerPool(workers=1)
    print(asyncio.run(pool.do(process, 0)), flush=True)
"""


async def test_a_program_that_ends_without_closing_the_pool_ends(tmp_path: Path) -> None:
    """As one does that a fault ends; the process at work ignores what asks it to end."""
    (tmp_path / "program.py").write_text(_PROGRAM)
    root = str(Path(__file__).parents[2])
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, str(tmp_path / "program.py")),
        env={**os.environ, "PYTHONPATH": root},
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        out, _ = await asyncio.wait_for(program.communicate(), 60)
    finally:
        if program.returncode is None:
            program.kill()
    assert program.returncode == 0
    assert not Path(f"/proc/{int(out)}").exists()
