"""Worker processes for heavy work, shared fairly among hosts.

Parsers and regular expressions hold the GIL until they finish, even in a thread: a page of 5 MB for a quarter of a
second at a time, a feed of 150 KB for a tenth. Only another process leaves the loop free. A page that crashes a parser
also crashes only the worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import multiprocessing
import multiprocessing.util
import os
import pickle
import resource
import signal
import socket
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from itertools import count
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import TypeVar

import structlog

from pollerd import texts
from pollerd.errors import TooHeavyError
from pollerd.texts import _

# Turns of hosts: the one that has used the workers least goes first.

_REMEMBERED = 1_000


class FairTurns:
    """Permits to use one of several processes, given to hosts by start-time fair queueing.

    Goyal, Vin and Cheng, "Start-time fair queueing", SIGCOMM 1996. A host's turn comes by the time that it has used so
    far and by what its work is expected to take, counted from the time used by the host that started last: who was away
    saves nothing up. A host that has a process already waits for those that have none.
    """

    def __init__(self, processes: int) -> None:
        self._free = processes
        self._waiting: dict[str, deque[tuple[float, asyncio.Future[None]]]] = {}
        self._running = Counter[str]()
        self._used: dict[str, float] = {}
        """Host -> seconds used, in virtual time; absent: `_virtual`."""
        self._virtual = 0.0
        """Virtual time at which the last work started, s."""
        self._queue: list[tuple[int, float, int, str]] = []
        """Heap of processes that a host has, its turn in virtual time, number and host; void unless its last number."""
        self._numbers: dict[str, int] = {}
        """Waiting host -> its number in the queue."""
        self._count = count()

    async def take(self, host: str, expected: float = 0.0) -> None:
        """Waits for a process. `expected`: how long it will be used, as far as is known, s."""
        if self._free:
            self._start(host)
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(host, deque()).append((expected, turn))
        if host not in self._numbers:
            self._line_up(host)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # its turn came at the same moment
                self.give_back(host, 0.0)
            raise

    def give_back(self, host: str, seconds: float) -> None:
        """Frees a process that the host used for `seconds`."""
        self._used[host] = self._start_of(host) + seconds
        self._running[host] -= 1
        if not self._running[host]:
            del self._running[host]
        self._free += 1
        self._line_up(host)
        self._start_next()
        if len(self._used) > _REMEMBERED:
            self._used = {host: used for host, used in self._used.items() if used > self._virtual}

    def _line_up(self, host: str) -> None:
        """Gives a waiting host its place in the queue anew."""
        if turns := self._waiting.get(host):
            number = self._numbers[host] = next(self._count)
            heappush(self._queue, (self._running[host], self._start_of(host) + turns[0][0], number, host))

    def _start_next(self) -> None:
        while self._free and self._waiting:
            _running, _start, number, host = heappop(self._queue)
            if self._numbers.get(host) != number:
                continue
            turns = self._waiting[host]
            _expected, turn = turns.popleft()
            if not turns:
                del self._waiting[host], self._numbers[host]
            if turn.done():  # it was called off
                self._line_up(host)
            else:
                self._start(host)
                turn.set_result(None)
        if not self._waiting:
            self._queue.clear()

    def _start(self, host: str) -> None:
        self._free -= 1
        self._running[host] += 1
        self._virtual = self._used[host] = self._start_of(host)
        self._line_up(host)

    def _start_of(self, host: str) -> float:
        return max(self._used.get(host, 0.0), self._virtual)


T = TypeVar("T")

PATIENCE_SECONDS = 5.0
"""CPU time of one piece of work; nearly all pages take less than a second."""
LIST_SECONDS = 20.0
"""CPU time of reading a list of pages: 50,000 entries of 50 MiB, the most that a sitemap has, take 2 to 6 s."""
_WALL_FACTOR = 12.0
"""Most wall time of a piece of work, as a multiple of its CPU time: other processes need the processors too."""
_BYTES_PER_SECOND = 2_000_000
"""Bytes of a page that are read in a second: of HTML more, of a feed less."""
_LOOK_SECONDS = 0.1
"""Least time between two looks at the CPU time of work that is late."""
_CPU_CLOCK = 2
"""With a process's id, as in clock_getcpuclockid(3), its clock of CPU time."""
_START_SECONDS = 60.0
"""Longest start of a process."""
MEMORY_BYTES = 448 * 1024**2
"""Memory that one piece of work can allocate. Reading 12 MB of JSON takes 330 MB, and 5 MB of tags 190 MB."""
TEMPLATE_SECONDS, TEMPLATE_MEMORY_BYTES = 2.0, 128 * 1024**2
"""CPU time and memory of one template."""
_PROCESS_BYTES = 64 * 1024**2
"""Memory of a process without work."""
_RESERVED_BYTES = 1024**3
"""Memory for the daemon itself, and for the processes that read selections and render templates."""
_WORKERS_MAX = 4


@dataclass(slots=True)
class Effort:
    """CPU time that workers spent on one poll, s, and the host whose share it counts against; empty: the daemon's.

    size: of the page, bytes, from which is guessed how long work on it takes. patience: most CPU time of one piece of
    work, s; None: that of the pool.
    """

    host: str = ""
    size: int = 0
    seconds: float = 0.0
    patience: float | None = None


class WorkerPool:
    """Runs work in processes, started on first use; they end with `close` or with the daemon.

    If all are busy, hosts take turns, so that expensive pages of some do not hold up those of others.
    """

    def __init__(
        self,
        workers: int = 1,
        *,
        patience_seconds: float = PATIENCE_SECONDS,
        memory_bytes: int = MEMORY_BYTES,
        name: str = "",
    ) -> None:
        """`workers`: maximum number of processes; at most `workers_that_fit`.

        patience_seconds: CPU time of one piece of work. memory_bytes: memory that a process can allocate for its work.
        name: of the pool, for the log.
        """
        self._turns = FairTurns(workers)
        self._patience, self._memory, self._name = patience_seconds, memory_bytes, name
        self._idle: list[_Process] = []
        self._processes: set[_Process] = set()
        self._log = structlog.get_logger("pollerd.workers")

    async def do(self, work: Callable[..., T], *arguments: object, effort: Effort | None = None) -> T:
        """Returns the result of `work`, a module-level function; sending the arguments costs about a millisecond per
        MiB. The CPU time that it takes is added to `effort`.

        Raises what it raises; TooHeavyError if it takes too much time or memory, or if its process ended twice.
        """
        effort = effort or Effort()
        before = effort.seconds
        await self._turns.take(
            effort.host, effort.size / _BYTES_PER_SECOND
        )  # time spent waiting for a process is not the work's
        try:
            with contextlib.suppress(_EndedError):  # something else may have ended the process
                return await self._once(work, arguments, effort)
            return await self._once(work, arguments, effort)
        except _EndedError as error:
            raise TooHeavyError(_("its process ended twice: it was short of memory, or a parser crashed")) from error
        except MemoryError as error:
            raise TooHeavyError(
                _("it takes more than {memory} MiB of memory", memory=self._memory // 1024**2)
            ) from error
        finally:
            self._turns.give_back(effort.host, effort.seconds - before)

    def close(self) -> None:
        """Ends the processes, even at work."""
        for process in self._processes:
            process.end()
        self._processes.clear()
        self._idle.clear()

    async def _once(self, work: Callable[..., T], arguments: tuple[object, ...], effort: Effort) -> T:
        process = self._idle.pop() if self._idle else _Process(self._memory)
        self._processes.add(process)
        done: asyncio.Task[T] | None = None
        try:
            await process.prepare(work)
            done = asyncio.create_task(process.run(work, arguments), name="worker")
            await self._watch(process, done, effort)
            return await done
        except _EndedError as error:
            self._log.warning("worker_ended", pool=self._name, reason=str(error))
            raise
        finally:
            if process in self._processes and _is_over(done):
                self._idle.append(process)
            else:  # at work, dead, or the pool was closed
                process.end()
                self._processes.discard(process)

    async def _watch(self, process: _Process, done: asyncio.Task[T], effort: Effort) -> None:
        """Waits until the work is done. Raises TooHeavyError when it has taken too long."""
        began, cpu_before, spent = time.monotonic(), process.cpu_seconds(), 0.0
        patience = effort.patience or self._patience
        try:
            while not done.done():
                await asyncio.wait([done], timeout=max(patience - spent, _LOOK_SECONDS))
                wall = time.monotonic() - began
                spent = min(process.cpu_seconds() - cpu_before, wall)
                if not done.done() and (spent >= patience or wall >= _WALL_FACTOR * patience):
                    reason = _("{spent:.1f} s of CPU time in {wall:.1f} s", spent=spent, wall=wall)
                    self._log.warning("worker_ended", pool=self._name, reason=reason)
                    raise TooHeavyError(_("it takes more than {patience:g} s of CPU time", patience=patience))
        finally:
            effort.seconds += spent


def _is_over(done: asyncio.Task[T] | None) -> bool:
    """Returns whether the work is done and its process ready for more; calls the work off if not."""
    if done is None:
        return False
    done.cancel()  # without effect on work that is done
    return done.done() and not done.cancelled() and not isinstance(done.exception(), _EndedError)


class _EndedError(Exception):
    """A process ended before its work."""


_HEAD_BYTES = 8
"""Before each message, its length; then the message, pickled."""
_BUFFER_BYTES = 1 << 20


class _Process:
    """One process at the other end of a pair of sockets.

    The loop itself writes the work and reads the result. With concurrent.futures each piece of work wakes three threads
    of ours, which takes four times the CPU time.
    """

    def __init__(self, memory_bytes: int) -> None:
        self._memory = memory_bytes
        self._process: SpawnProcess | None = None
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._loaded: set[str] = set()

    async def prepare(self, work: Callable[..., object]) -> None:
        """Waits until the process runs and has loaded the work's code, whose time and memory no page is to blame for.

        Raises TimeoutError or `_EndedError` if that fails.
        """
        module = (work.func if isinstance(work, partial) else work).__module__
        if module not in self._loaded:
            async with asyncio.timeout(_START_SECONDS):
                if self._process is None:
                    await self._start()
                await self.run(_load, (module, self._memory))
            self._loaded.add(module)

    async def _start(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs,), daemon=True)
            await asyncio.to_thread(self._process.start)
        # Else a program that ends without `end` would wait for it for ever: the process ignores what asks it to end. It
        # ends with this object, too.
        multiprocessing.util.Finalize(self, self._process.kill, exitpriority=0)
        self._streams = await asyncio.open_unix_connection(sock=ours, limit=_BUFFER_BYTES)

    async def run(self, work: Callable[..., T], arguments: tuple[object, ...]) -> T:
        """Returns the result of the work, or raises what it raises; `_EndedError` if the process ends before."""
        assert self._streams is not None
        (reader, writer), data = self._streams, pickle.dumps((texts.current().code, work, arguments))
        try:
            writer.write(len(data).to_bytes(_HEAD_BYTES) + data)
            await writer.drain()
            size = int.from_bytes(await reader.readexactly(_HEAD_BYTES))
            returned, value = pickle.loads(await reader.readexactly(size))
        except (asyncio.IncompleteReadError, OSError) as error:
            raise _EndedError(_("a worker process ended in the middle of its work")) from error
        if not returned:
            raise value
        result: T = value
        return result

    def cpu_seconds(self) -> float:
        """Returns the CPU time that the process has used, s; the wall time where the system does not say it."""
        pid = (self._process and self._process.pid) or 0
        try:
            return time.clock_gettime((~pid << 3) | _CPU_CLOCK)
        except OSError:  # the process has ended, or this is no Linux
            return time.monotonic()

    def end(self) -> None:
        """Ends the process, even at work."""
        if self._streams is not None:
            self._streams[1].transport.abort()
        if self._process is not None and self._process.pid is not None:
            self._process.kill()


def workers_that_fit() -> int:
    """Returns how many processes there are processors and memory for, 1 to 4; one processor is the daemon's."""
    processors = (os.cpu_count() or 1) - 1
    room = (_memory_there() - _RESERVED_BYTES) // (MEMORY_BYTES + _PROCESS_BYTES)
    return min(max(min(processors, room), 1), _WORKERS_MAX)


def _memory_there() -> int:
    """Returns the memory that this process and its children can use, bytes: the machine's, or a limit of its group."""
    most = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError, ValueError):  # no Linux, or no limit
        group = Path("/proc/self/cgroup").read_text().rpartition("::")[2].strip().lstrip("/")
        most = min(most, int((Path("/sys/fs/cgroup") / group / "memory.max").read_text()))
    return most


def _serve(connection: socket.socket) -> None:
    """Does the work that comes over the connection, until that or the daemon ends."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the daemon handles them
    threading.Thread(target=_end_with_parent, name="watch-parent", daemon=True).start()
    with contextlib.suppress(OSError), connection, connection.makefile("rb") as requests:
        while head := requests.read(_HEAD_BYTES):
            result = _result_of(requests.read(int.from_bytes(head)))
            connection.sendall(len(result).to_bytes(_HEAD_BYTES) + result)


def _result_of(request: bytes) -> bytes:
    try:
        code, work, arguments = pickle.loads(request)
        with texts.speaking(texts.language(code)):
            return pickle.dumps((True, work(*arguments)))
    except MemoryError:
        return pickle.dumps((False, MemoryError()))  # what else there is to say of it takes memory
    except Exception as error:  # noqa: BLE001 (the daemon raises it)
        error.add_note(traceback.format_exc())
        try:
            data = pickle.dumps((False, error))
            pickle.loads(data)
        except Exception:  # noqa: BLE001 (one that cannot be sent is named)
            return pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}")))
        return data


def _load(module: str, memory_bytes: int) -> None:
    """Loads a module, and limits the memory that work may use besides it."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    importlib.import_module(module)
    with contextlib.suppress(OSError):  # not everywhere does the system say what a process has
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * os.sysconf("SC_PAGE_SIZE") + memory_bytes
        resource.setrlimit(resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    with contextlib.suppress(OSError):
        if parent is not None:
            parent.join()
    os._exit(0)
