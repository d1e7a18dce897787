"""A process that holds a database and commits batch after batch until it is killed: `writer.py URL`.

Prints "open" when it holds the lock, then the number of batches after each commit.
"""

from __future__ import annotations

import asyncio
import sys

from pollerd.storage.store import Store
from pollerd.storage.values import Batch
from tests.storage.samples import add, record, schedule_of

SITES = 200


async def main(url: str) -> None:
    store = await Store.open(url)
    await add(store, SITES)
    print("open", flush=True)  # noqa: T201
    sites = (await schedule_of(store)).site_id.tolist()
    done = (await schedule_of(store)).polls.min().item()
    while True:
        done += 1
        contexts = await store.sites.contexts(sites)
        content = b"content %d " % done * 50
        records = [
            record(contexts[s], float(done), content, changed=done > 1, learned=done.to_bytes(8, "big")) for s in sites
        ]
        await store.commit(Batch(records, allocator="whittle"))
        print(done, flush=True)  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
