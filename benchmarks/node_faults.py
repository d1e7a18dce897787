"""Nodes on one PostgreSQL under faults at random; then the pages' log is checked against every promise.

Four nodes (`pollerd run --node`), each in a network namespace of its own, share a PostgreSQL of the benchmark's own.
The pages are thousands on hosts of this machine, whose server logs every request; some of them are redirected to other
hosts. Every half minute or so something happens: a node is killed (SIGKILL), stands still (SIGSTOP) for up to a minute,
loses its line to the database (nothing gets through, nobody is told), is stopped and started as for an upgrade, or with
a clock that is up to 25 s ahead or behind; two nodes join at once; one is drained for a while; the one that has a role
leaves or dies; the database is restarted, orderly or not; hosts answer 429; the channel's receiver refuses; sites are
edited, and the budget is set anew, at any node. With `--old` the first two nodes begin with another version's program,
beside which the others migrate the database; whatever ends them, they are started with this one. A reader of events
goes from node to node, and a channel gets all changes. At the end the log, the reader, the receiver and the database
must agree with what docs/cluster.md promises; the exit code is 1 where they do not.

    PYTHONPATH=. python benchmarks/node_faults.py [--minutes 30] [--seed 1] [--faults kill,freeze,cut]
    PYTHONPATH=. python benchmarks/node_faults.py --scenario "kill:4 31 crash 38 roll:3 19 restart"
    PYTHONPATH=. python benchmarks/node_faults.py --failover synchronous|asynchronous
    PYTHONPATH=. python benchmarks/node_faults.py --old FOLDER    (of an unpacked wheel)

Needs root, for the namespaces, and PostgreSQL's programs.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path

import aiohttp
from fault_runs.checks import (
    Report,
    check_changes,
    check_deaths,
    check_deliveries,
    check_hosts,
    check_last,
    check_pauses,
    check_polls,
    check_redirects,
    check_windows,
)
from fault_runs.namespaces import make_hosts, remove_hosts
from fault_runs.nodes import Node
from fault_runs.pages import Pages
from fault_runs.reader import Reader
from fault_runs.user import Receiver, User

from pollerd.model import OutcomeKind
from pollerd.partitions import PARTITIONS, partition_of
from tests.support.own_postgres import OwnServer, missing

FAULTS = (
    *("kill", "freeze", "cut", "roll", "join", "restart", "crash"),
    *("role", "drain", "clock", "edits", "budget", "refuse", "deaf"),
)
OLD_NODES = 2
PAGES_PORT, DATABASE_PORT = 18_000, 16_432
SETTLE_SECONDS = 110.0
START_SECONDS = 90.0
READ_SECONDS = 25.0
"""How long the reader has for the last changes, before the nodes are stopped one by one."""
DEATH_BOUND_SECONDS, FROZEN_BOUND_SECONDS = 25.0, 40.0
"""Within which all partitions of a node that died, or that stands still, are polled by others."""
SILENT_SECONDS = 13.0
"""After so long the server ends a session of which it hears nothing."""
_SERVER_SETTINGS = (
    "listen_addresses = '*'",
    "max_connections = 200",
    "wal_level = replica",
    "shared_buffers = 256MB",
)
_ROWS = (
    "SELECT json_agg(json_build_array(h.name, s.url, p.at, p.outcome)) FROM poll p JOIN site s ON s.id = p.site_id"
    " JOIN host h ON h.id = s.host_id WHERE p.outcome NOT IN ('robots')"
)
_CHANGES = (
    "SELECT json_agg(json_build_array(c.id, h.name, s.url, c.summary) ORDER BY c.id) FROM change c"
    " JOIN site s ON s.id = c.site_id JOIN host h ON h.id = s.host_id"
)


class Run:
    """The nodes, and what was done to them."""

    def __init__(self, args: argparse.Namespace, folder: Path, server: OwnServer) -> None:
        self.args, self.server, self.rng = args, server, random.Random(args.seed)
        self.pages = Pages(args.hosts, args.each, PAGES_PORT)
        (folder / "urls.txt").write_text("\n".join(self.pages.urls()))
        self.token = secrets.token_hex(16)
        token_file = folder / "token"
        token_file.write_text(self.token)
        token_file.chmod(0o600)
        flags = (
            "--budget",
            str(args.budget),
            "--host-interval",
            f"{args.interval}s",
            "--min-interval",
            "0",
            "--max-interval",
            "60s",
            "--min-yield",
            "0",
        )
        self.nodes: list[Node] = [
            Node(
                n,
                folder,
                *((str(folder / "urls.txt"),) if n == 1 else ()),
                *flags,
                database_port=DATABASE_PORT,
                token_file=token_file,
            )
            for n in range(1, args.nodes + 1)
        ]
        for node in self.nodes[:OLD_NODES] if args.old else ():
            node.code = args.old
        self.receiver, self.user = Receiver(), User(self.nodes, self.token, random.Random(args.seed + 2))
        self.budgets: list[tuple[float, float]] = []
        """(since when, budget)."""
        self.deaths: list[tuple[str, float]] = []
        self.frozen: list[tuple[str, float]] = []
        """Nodes that stood still for so long that others took their partitions."""
        self.beside: list[tuple[float, float]] = []
        """(when, until when) of all that befell nodes and database; silent ends of sessions: until they are noticed."""
        self.stopped: list[tuple[str, float, float]] = []
        names = (url.split("/")[2] for url in self.pages.urls()[:: args.each])
        self._partitions = [partition_of(name, PARTITIONS) for name in names]
        self._database_lock = asyncio.Lock()
        self.began = time.monotonic()
        self.done: list[str] = []
        self.first_told = 0
        """The newest change before there was a channel."""
        self.wrong: list[str] = []
        """Edits that are not in force in the end."""
        self.chosen: int | None = None
        """Number of the node that the next fault befalls; None: any."""

    def partition(self, host: int) -> int:
        """The partition of a host."""
        return self._partitions[host]

    def say(self, what: str) -> None:
        """Tells what is being done."""
        self.done.append(what)
        print(f"{time.monotonic() - self.began:7.1f} s  {what}", flush=True)

    async def ready(self, nodes: Sequence[Node]) -> None:
        """Waits until the nodes answer that they are ready."""
        async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {self.token}"}) as session:
            for node in nodes:
                until = time.monotonic() + START_SECONDS
                while True:
                    with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                        async with session.get(f"{node.base}/readyz", timeout=aiohttp.ClientTimeout(2)) as answer:
                            if answer.status == 200:
                                break
                    if time.monotonic() > until or not node.running:
                        raise SystemExit(f"{node.name} is not ready: {node.log[-3000:]}")
                    await asyncio.sleep(0.2)

    # What may happen.

    @contextlib.contextmanager
    def _noted(self, until: float | None = None) -> Iterator[None]:
        """Notes when this happens; until: seconds after its begin, else until it is over."""
        begin = time.monotonic()
        try:
            yield
        finally:
            self.beside.append((begin, time.monotonic() if until is None else begin + until))

    def _some(self, count: int = 1) -> list[Node]:
        """Nodes that run and to which nothing is being done; never so many that none is left."""
        if self.chosen is not None:
            return [self.nodes[self.chosen - 1]]
        fine = [node for node in self.nodes if node.running and not node.frozen]
        return self.rng.sample(fine, count) if len(fine) > count else []

    async def kill(self) -> None:
        """SIGKILL; started again after a while."""
        for node in self._some():
            self.say(f"kill -9 {node.name}")
            await node.end(signal.SIGKILL)
            self.deaths.append((node.namespace.source, time.monotonic()))
            with self._noted(until=0.0):
                """Of other deaths."""
            await asyncio.sleep(self.rng.uniform(0, 50))
            with self._noted():
                await node.start()

    async def freeze(self) -> None:
        """Stands still."""
        for node in self._some():
            seconds = self.rng.uniform(5, 60)
            self.say(f"{node.name} stands still for {seconds:.0f} s")
            start = time.monotonic()
            node.freeze()
            with self._noted(until=SILENT_SECONDS):
                if seconds > FROZEN_BOUND_SECONDS:
                    self.frozen.append((node.namespace.source, time.monotonic()))
                await asyncio.sleep(seconds)
            with self._noted():
                node.thaw()
            self.stopped.append((node.namespace.source, start, time.monotonic()))

    async def cut(self) -> None:
        """Loses the database, silently."""
        for node in self._some():
            seconds = self.rng.uniform(5, 60)
            self.say(f"{node.name} is cut off from the database for {seconds:.0f} s")
            with self._noted(until=SILENT_SECONDS):
                await asyncio.to_thread(node.namespace.cut)
                await asyncio.sleep(seconds)
            with self._noted():
                await asyncio.to_thread(node.namespace.mend)

    async def roll(self) -> None:
        """Stopped and started, as for an upgrade."""
        for node in self._some():
            self.say(f"{node.name} is stopped and started")
            with self._noted():
                code = await node.end(signal.SIGTERM)
                if code and node.code is None:
                    raise SystemExit(f"{node.name} ended with {code}: {node.log[-3000:]}")
                await node.start()

    async def join(self) -> None:
        """Two are stopped, and join at once."""
        some = self._some(2)
        if some:
            self.say(f"{some[0].name} and {some[1].name} leave and join at once")
            with self._noted():
                await asyncio.gather(*(node.end(signal.SIGTERM) for node in some))
            await asyncio.sleep(5)
            with self._noted():
                await asyncio.gather(*(node.start() for node in some))

    async def role(self) -> None:
        """The node that has a role is stopped, or killed, and started."""
        _, cluster = await self.user.call("GET", "/cluster")
        role = self.rng.choice(("delivery", "sources", "jobs", "retention", "hubs"))
        holders = [one["name"] for one in cluster["nodes"] if role in one["roles"]] if cluster else []
        for node in [node for node in self._some(len(self.nodes) - 1) if node.name in holders]:
            number = self.rng.choice((signal.SIGKILL, signal.SIGTERM))
            self.say(f"{node.name}, which has the role {role}, gets {number.name}")
            with self._noted():
                await node.end(number)
                await node.start()

    async def drain(self) -> None:
        """Drained for a while, and perhaps started again meanwhile."""
        for node in self._some():
            status, found = await self.user.call("PATCH", f"/cluster/nodes/{node.name}", {"drained": True})
            self.say(f"{node.name} is drained: {status} {found.get('detail', '') if found and status != 200 else ''}")
            if status == 409:
                continue
            await asyncio.sleep(self.rng.uniform(5, 30))
            if self.rng.random() < 0.5 and node.running and not node.frozen:
                with self._noted():
                    await node.end(signal.SIGTERM)
                    await node.start()
            await self.user.must("PATCH", f"/cluster/nodes/{node.name}", {"drained": False})

    async def clock(self) -> None:
        """Stopped, and started with a clock that is wrong."""
        for node in self._some():
            node.clock_ahead = self.rng.uniform(-25, 25)
            self.say(f"{node.name} is started with a clock that is {node.clock_ahead:.0f} s ahead")
            with self._noted():
                await node.end(signal.SIGTERM)
                await node.start()
            node.clock_ahead = 0.0  # at its next start

    async def edits(self) -> None:
        """Some sites are edited."""
        self.say("20 sites are edited")
        for _ in range(20):
            await self.user.edit(self.args.hosts * self.args.each)

    async def budget(self) -> None:
        """The budget of all is set anew."""
        value = round(self.args.budget * self.rng.uniform(0.5, 1.5))
        self.say(f"the budget is {value}")
        self.budgets.append((time.monotonic(), max(value, self.budgets[-1][1])))  # from when it may be in force
        await self.user.must("PUT", "/allocation", {"budget": value})
        self.budgets.append((time.monotonic(), value))

    async def refuse(self) -> None:
        """Every twentieth host answers 429 for 12 s."""
        first = self.rng.randrange(20)
        self.say("some hosts answer 429")
        for host in range(first, self.args.hosts, 20):
            self.pages.refuse(host, 12.0)

    async def deaf(self) -> None:
        """The channel's receiver refuses for a while."""
        self.say("the receiver refuses")
        self.receiver.refuses = True
        await asyncio.sleep(self.rng.uniform(5, 30))
        self.receiver.refuses = False

    async def restart(self) -> None:
        """The database is restarted in order."""
        await self._database("fast")

    async def crash(self) -> None:
        """The database is broken off, and recovers."""
        await self._database("immediate")

    async def _database(self, how: str) -> None:
        async with self._database_lock:
            self.say(f"the database is restarted ({how})")
            with self._noted():
                await asyncio.to_thread(self.server.stop, how)
                await asyncio.sleep(self.rng.uniform(0, 10))
                await asyncio.to_thread(self.server.start)

    async def keep_forwarding(self) -> None:
        """Keeps the ways between nodes open, which other programs of the machine may end, until cancelled."""
        while True:
            if sum(node.namespace.forward() for node in self.nodes):
                self.say("the machine had ended forwarding between the nodes; it is set again")
            await asyncio.sleep(1.0)

    async def keep_running(self) -> None:
        """Starts nodes of the older version with this one's program when they end, until cancelled."""
        while True:
            for node in self.nodes:
                if node.code is not None and not node.running:
                    self.say(f"{node.name} ended, and is started with this version")
                    with self._noted():
                        await node.start()
            await asyncio.sleep(0.2)

    async def befall(self, seconds: float, kinds: Sequence[str]) -> None:
        """Lets things happen for so long, several at once now and then; all is mended at the end."""
        under_way: set[asyncio.Task[None]] = set()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            fault: Callable[[], Coroutine[None, None, None]] = getattr(self, self.rng.choice(list(kinds)))
            task = asyncio.create_task(fault())
            under_way.add(task)
            task.add_done_callback(under_way.discard)
            await asyncio.sleep(self.rng.uniform(10, 40))
        await self._mend(under_way)

    async def play(self, scenario: str) -> None:
        """Lets the faults of a scenario happen: names with a node's number, or seconds to wait, with spaces between."""
        under_way: set[asyncio.Task[None]] = set()
        for step in scenario.split():
            if step.replace(".", "").isdigit():
                await asyncio.sleep(float(step))
                continue
            name, _, number = step.partition(":")
            self.chosen = int(number) if number else None
            fault: Callable[[], Coroutine[None, None, None]] = getattr(self, name)
            under_way.add(asyncio.create_task(fault()))
            await asyncio.sleep(0)  # it chooses its node
            self.chosen = None
        await self._mend(under_way)

    async def _mend(self, under_way: set[asyncio.Task[None]]) -> None:
        if under_way:
            await asyncio.gather(*under_way)
        for node in self.nodes:
            node.thaw()
            node.namespace.mend()
            if not node.running:
                await node.start()

    async def failover(self, how: str) -> None:
        """The primary is broken off for ever, and its standby takes its place."""
        standby = OwnServer(DATABASE_PORT + 1)
        await asyncio.to_thread(standby.copy, self.server, synchronous=how == "synchronous")
        await asyncio.sleep(30)
        self.say(f"the primary is gone; its {how} standby takes over")
        if how == "asynchronous":
            for node in self.nodes:  # numbers are raised while no node writes
                await asyncio.to_thread(node.namespace.cut)
        await asyncio.to_thread(self.server.stop, "immediate")
        await asyncio.to_thread(standby.promote)
        await asyncio.to_thread(standby.sql, "ALTER SYSTEM RESET synchronous_standby_names")
        await asyncio.to_thread(standby.stop, "fast")
        old, standby.port = self.server, self.server.port
        await asyncio.to_thread(standby.start)
        self.server = standby
        await asyncio.to_thread(old.remove)
        if how == "asynchronous":
            url = f"postgresql://postgres@127.0.0.1:{DATABASE_PORT}/postgres"
            raising = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "pollerd", "db", "raise-numbers", "--database", url)
            )
            if await raising.wait():
                raise SystemExit("numbers were not raised")
            for node in self.nodes:
                await asyncio.to_thread(node.namespace.mend)


def _page(host: str, url: str) -> tuple[int, str]:
    third, fourth = host.partition(":")[0].split(".")[2:]
    return int(third) * 250 + int(fourth) - 1, "/" + url.rpartition("/")[2]


async def check(run: Run, reader: Reader, seen_until: int) -> Report:
    """Compares everything."""
    args, report = run.args, Report()
    log = list(run.pages.log)
    stored = [(*_page(host, url), at, outcome) for host, url, at, outcome in json.loads(run.server.sql(_ROWS) or "[]")]
    rows = [(host, path, at) for host, path, at, _ in stored]
    informed = [(host, path, at) for host, path, at, outcome in stored if OutcomeKind(outcome).informative]
    changes = [
        (number, *_page(host, url), said) for number, host, url, said in json.loads(run.server.sql(_CHANGES) or "[]")
    ]
    seen = [one for one in reader.changes if int(str(one["id"])) <= seen_until]
    check_hosts(report, log, args.interval, run.stopped)
    check_windows(report, log, run.budgets, args.nodes, run.stopped)
    check_pauses(report, log, run.beside)
    check_deaths(report, log, run.deaths, run.beside, run.partition, bound=DEATH_BOUND_SECONDS)
    check_deaths(
        report, log, run.frozen, run.beside, run.partition, bound=FROZEN_BOUND_SECONDS, what="a node stood still"
    )
    check_polls(report, log, rows)
    put_off = sum(outcome == OutcomeKind.THROTTLED.value for *_, outcome in stored)
    check_redirects(report, log, put_off, run.partition, args.hosts // 4)
    check_changes(report, log, [one for one in changes if one[0] <= seen_until], seen)
    told_from = run.first_told
    check_deliveries(report, run.receiver.received, [one[0] for one in changes if told_from < one[0] <= seen_until])
    for line in run.wrong[:10]:
        report.say(f"         {line}")
    report.must(not run.wrong, f"edits: {len(run.user.weights)} sites, {len(run.wrong)} not as they were set")
    report.must(not run.user.refused, f"edits: {len(run.user.refused)} refused {run.user.refused[:3]}")
    now = time.monotonic()
    expected = {
        (host, f"/{page}"): run.pages.edition(host, page, now)
        for host in range(args.hosts)
        for page in range(args.each)
    }
    ahead = time.time() - now
    late = check_last(report, expected, changes, log, [(host, path, at - ahead) for host, path, at in informed])
    for page in late[:3]:
        report.say(f"         {page} was requested: {[hit for hit in log if hit.page == page][-8:]}")
        report.say(f"         {page} was stored: {[one[2:] for one in stored if one[:2] == page][-8:]}")
        report.say(f"         {page} changed: {[one for one in changes if one[1:3] == page][-4:]}")
    for node in run.nodes:
        report.must("Traceback" not in node.log, f"{node.name}: no traceback in its log")
    return report


async def main(args: argparse.Namespace) -> int:
    if (reason := missing()) is not None:
        raise SystemExit(reason)
    folder = Path(tempfile.mkdtemp(prefix="pollerd-nodes-"))
    os.nice(-10)
    server = OwnServer(DATABASE_PORT)
    await asyncio.to_thread(server.make, _SERVER_SETTINGS)
    await asyncio.to_thread(server.start)
    make_hosts()
    run = Run(args, folder, server)
    for node in run.nodes:
        node.namespace.make()
    reader = Reader(run.nodes, run.token, random.Random(args.seed + 1))
    try:
        async with run.pages.served(), run.receiver.served():
            run.budgets.append((time.monotonic(), args.budget))
            first = OLD_NODES if args.old else 0
            for some in (run.nodes[:first], run.nodes[first:]):
                for node in some:
                    await node.start()
                await run.ready(some)
            run.say("all nodes are ready")
            reading = asyncio.create_task(reader.run())
            watching = [asyncio.create_task(work) for work in (run.keep_forwarding(), run.keep_running())]
            settings = {"name": "hook", "kind": "webhook", "settings": {"url": run.receiver.url}}
            await run.user.must("POST", "/channels", settings)
            await run.user.must("POST", "/rules", {"name": "all", "channels": ["hook"]})
            await asyncio.sleep(20)
            run.first_told = int(run.server.sql("SELECT coalesce(max(id), 0) FROM change"))
            if args.failover:
                await run.failover(args.failover)
                await asyncio.sleep(60 * args.minutes)
            elif args.scenario:
                await run.play(args.scenario)
            else:
                await run.befall(60 * args.minutes, args.faults.split(","))
            await run.ready(run.nodes)
            await run.user.resume_all()
            run.pages.freeze()
            run.say("nothing happens any more, and no page changes")
            await asyncio.sleep(SETTLE_SECONDS)
            newest = int(run.server.sql("SELECT coalesce(max(id), 0) FROM change"))
            await asyncio.sleep(READ_SECONDS)
            run.wrong = await run.user.wrong_edits()
            for node in run.nodes:
                await node.end(signal.SIGTERM)
            for task in (reading, *watching):
                task.cancel()
        report = await check(run, reader, newest)
    finally:
        for node in run.nodes:
            node.thaw()
            await node.end(signal.SIGKILL)
            node.namespace.remove()
        remove_hosts()
        run.server.remove()
    print(f"{len(run.done)} events; {reader.moves} moves of the reader; logs in {folder}")
    print("\n".join(report.lines))
    return 1 if report.violations else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--hosts", type=int, default=1_000)
    parser.add_argument("--each", type=int, default=3, help="pages of a host")
    parser.add_argument("--budget", type=float, default=120.0)
    parser.add_argument("--interval", type=float, default=4.0, help="s between two requests to one host")
    parser.add_argument("--faults", default=",".join(FAULTS), help="which, separated by commas")
    parser.add_argument("--scenario", help="faults of your own instead, e. g. 'kill:4 31 crash 38 roll:3 19 restart'")
    parser.add_argument("--old", type=Path, help="folder of another version's program, for the first two nodes")
    parser.add_argument("--failover", choices=("synchronous", "asynchronous"))
    sys.exit(asyncio.run(main(parser.parse_args())))
