"""A process that commits changes with notices and sends messages until it is killed: `sender.py URL FILE`.

Each message is sent by a line in FILE: its id and its events.
"""

from __future__ import annotations

import asyncio
import random
import sys
from itertools import count
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from pollerd.events import EventKind, Notice, NoticeState
from pollerd.storage.notification_values import AttemptEnd, ChannelSpec, ClaimedMessage
from pollerd.storage.store import Store
from pollerd.storage.values import Batch, PollRecord
from tests.storage.samples import add, record, schedule_of

SITES = 5
SENT = AttemptEnd(NoticeState.SENT, "sent")


async def main(url: str, file: Path) -> None:
    store, rng = await Store.open(url), random.Random(1)
    n = store.notifications
    if not await n.channels.all():
        await add(store, SITES)
        await n.channels.add(ChannelSpec("c", "x"), 1.0)
    await n.outbox.release()
    sites = (await schedule_of(store)).site_id.tolist()
    done = int(np.nan_to_num((await schedule_of(store)).last_poll_at).max())
    print("open", flush=True)  # noqa: T201
    for at in count(done + 1):
        contexts = await store.sites.contexts(sites)
        content = b"content %d" % at
        records = [_told(record(contexts[s], float(at), content, changed=True)) for s in sites]
        await store.commit(Batch(records))
        while claim := await n.outbox.claim(1, float(at), limit=4, group_from=rng.choice([2, 7])):
            send(file, claim)
            again = AttemptEnd(NoticeState.WAITING, "retry", due_at=at + 1.0)
            await n.outbox.ended(1, claim.message_id, float(at), rng.choice([SENT, SENT, again]))
        print(at, flush=True)  # noqa: T201


def _told(one: PollRecord) -> PollRecord:
    site, at = one.poll.site_id, one.poll.at
    return replace(one, notices=(Notice(f"s{site}-{at:.0f}", EventKind.CHANGED, at, 1, 1, at, site_id=site),))


def send(file: Path, claim: ClaimedMessage) -> None:
    """Writes one line by one call, which a kill does not cut."""
    with file.open("ab", buffering=0) as out:
        out.write(" ".join([claim.message_id, *(one.event_id for one in claim.notices)]).encode() + b"\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
