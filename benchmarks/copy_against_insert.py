"""COPY against INSERT of arrays for the table of polls: CPU of the server and of the client, a poll.

    python benchmarks/copy_against_insert.py --postgres URL [--batches 16 64 256] [--seconds 2] [--turns 7]

Both write the same rows into the table of a new database with pollerd's schema, in transactions of so many polls as a
commit has, in turns: as a message of its own (`copy`), as a statement of its own (`insert`), or, as pollerd does, as a
part of the statement that updates the states of the sites, too (`together`; `copy` and `insert` update them in a second
one, so that all three do the same). The server has to run on this machine, and to serve nobody else.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable
from statistics import median

import asyncpg
from postgres_throughput import Server

from pollerd.model import SiteSpec
from pollerd.storage import Store

_COLUMNS = {
    "site_id": "bigint",
    "at": "double precision",
    "elapsed": "double precision",
    "outcome": "text",
    "status": "integer",
    "duration": "double precision",
    "bytes": "bigint",
    "changed": "boolean",
    "age": "double precision",
    "count": "bigint",
    "detail": "text",
    "redirects": "text",
}
_SITES = 5_000
_GIVEN = ", ".join(f"${n}::{kind}[]" for n, kind in enumerate(_COLUMNS.values(), 1))
_INSERT = f"INSERT INTO poll ({', '.join(_COLUMNS)}) SELECT * FROM unnest({_GIVEN})"
_UPDATE = "UPDATE site_state SET last_poll_at = given.at, polls = polls + 1 FROM unnest({}::bigint[], {}::float[])"
_UPDATE += " AS given(id, at) WHERE site_id = given.id"
_UPDATE_ALONE = _UPDATE.format("$1", "$2")
_TOGETHER = f"WITH written AS ({_INSERT}) {_UPDATE.format('$13', '$14')}"
Row = tuple[object, ...]
Way = Callable[[asyncpg.Connection, list[Row]], Awaitable[None]]


def _columns(rows: list[Row]) -> list[list[object]]:
    return [list(column) for column in zip(*rows, strict=True)]


async def _copy(connection: asyncpg.Connection, rows: list[Row]) -> None:
    await connection.copy_records_to_table("poll", records=rows, columns=list(_COLUMNS))
    await connection.execute(_UPDATE_ALONE, [row[0] for row in rows], [row[1] for row in rows])


async def _insert(connection: asyncpg.Connection, rows: list[Row]) -> None:
    columns = _columns(rows)
    await connection.execute(_INSERT, *columns)
    await connection.execute(_UPDATE_ALONE, columns[0], columns[1])


async def _together(connection: asyncpg.Connection, rows: list[Row]) -> None:
    columns = _columns(rows)
    await connection.execute(_TOGETHER, *columns, columns[0], columns[1])


WAYS: dict[str, Way] = {"copy": _copy, "insert": _insert, "together": _together}


async def make_sites(url: str) -> list[int]:
    """Makes the schema, and sites to be polled; returns their ids."""
    store = await Store.open(url)
    try:
        specs = [SiteSpec(f"http://host{n}.example/") for n in range(_SITES)]
        await store.sites.add(specs, [f"host{n}.example:80" for n in range(_SITES)], 0.0, respect_deleted=False)
        return [site_id async for rows, _ in store.sites.schedule() for site_id in rows.site_id.tolist()]
    finally:
        await store.close()


async def measure(url: str, way: Way, sites: list[int], batch: int, seconds: float) -> tuple[int, float]:
    """Commits for a while; returns the polls, and the CPU (s) of this process."""
    connection = await asyncpg.connect(url)
    try:
        polls, begun, cpu = 0, time.monotonic(), time.process_time()
        while time.monotonic() - begun < seconds:
            start = polls % (len(sites) - batch)
            at = time.time()
            rows: list[Row] = [
                (site, at, 60.0, "unchanged", 304, 0.1, 200, False, None, None, "", None)
                for site in sites[start : start + batch]
            ]
            async with connection.transaction():
                await way(connection, rows)
            polls += batch
        return polls, time.process_time() - cpu
    finally:
        await connection.close()


def main() -> None:
    """Prints the median of each way and batch."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--postgres", required=True, metavar="URL", help="a database of a role that may make others")
    parser.add_argument("--batches", type=int, nargs="+", default=[16, 64, 256], help="polls in a commit")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--turns", type=int, default=7)
    options = parser.parse_args()
    server = Server(options.postgres)
    with server.database("pollerd_copy") as url:
        sites = asyncio.run(make_sites(url))
        server.run("CHECKPOINT")
        for batch in options.batches:
            found: dict[str, list[tuple[float, float]]] = {name: [] for name in WAYS}
            for _ in range(options.turns):
                for name, way in WAYS.items():
                    before = server.cpu()
                    polls, client = asyncio.run(measure(url, way, sites, batch, options.seconds))
                    found[name].append((1e3 * (server.cpu() - before) / polls, 1e3 * client / polls))
            for name, each in found.items():
                of_server, of_client = (median(column) for column in zip(*each, strict=True))
                print(f"{batch:5} {name:9} server {of_server:6.4f} ms  client {of_client:6.4f} ms a poll", flush=True)


if __name__ == "__main__":
    main()
