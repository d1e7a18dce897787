"""kill -9 of a daemon that commits, claims and sends: each change is told, under one id, in order."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

from pollerd.events import NoticeState
from pollerd.storage.notification_values import AttemptEnd
from pollerd.storage.store import Store
from tests.storage.samples import query
from tests.storage.sender import send

ROOT = Path(__file__).parents[2]
SENT = AttemptEnd(NoticeState.SENT, "sent")


def run_and_kill(url: str, file: Path, after: float) -> None:
    """Kills the sender that long (s) after its first round."""
    command = [sys.executable, "-m", "tests.storage.sender", url, str(file)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "open\n"
            process.stdout.readline()
            time.sleep(after)
        finally:
            process.kill()


async def test_killed_between_claim_and_end(url: str, tmp_path: Path) -> None:
    file, rng = tmp_path / "sent", random.Random(3)
    for _ in range(3):
        run_and_kill(url, file, rng.random() / 20)
    store = await Store.open(url)
    assert await store.notifications.outbox.release() >= 0
    while claim := await store.notifications.outbox.claim(1, 1e9, limit=4, group_from=2):
        send(file, claim)
        await store.notifications.outbox.ended(1, claim.message_id, 1e9, SENT)
    await store.close()
    messages: dict[str, list[str]] = {}
    told: defaultdict[str, list[str]] = defaultdict(list)
    for line in file.read_text().splitlines():
        message, *events = line.split()
        assert messages.setdefault(message, events) == events, "each attempt sends the same"
        for event in events:
            if event not in told[event.partition("-")[0]]:
                told[event.partition("-")[0]].append(event)
    changes = await query(url, 'SELECT site_id, detected_at FROM "change" ORDER BY id')
    happened: defaultdict[str, list[str]] = defaultdict(list)
    for site, at in changes:
        happened[f"s{site}"].append(f"s{site}-{at:.0f}")
    assert told == happened, "all that was committed is told, in order, and nothing else"
    assert sum(map(len, messages.values())) == len(changes), "each event is in one message"
    assert await query(url, "SELECT count(*) FROM outbox WHERE change_id IS NULL OR state <> 'sent'") == [(0,)]
