"""Teaching an allocator from the polls that storage kept."""

from __future__ import annotations

from collections.abc import AsyncIterator

import numpy as np

from pollerd.allocation import Allocator, EvidenceBatch
from pollerd.scheduling import SiteTable
from pollerd.storage import PollColumns


async def replay(blocks: AsyncIterator[PollColumns], sites: SiteTable, allocator: Allocator) -> int:
    """Feeds stored polls, in time order, to an allocator that holds the sites; returns how many it took.

    Polls of sites that are not in the table, and undated first polls, are passed over, as in life.
    """
    taken = 0
    async for polls in blocks:
        slots = sites.slots_of(polls.site_id)
        keep = (slots >= 0) & (np.isfinite(polls.elapsed) | ~np.isnan(polls.age))
        if not keep.any():
            continue
        evidence = EvidenceBatch(changed=polls.changed[keep], age=polls.age[keep], count=polls.count[keep])
        allocator.observe(slots[keep], polls.elapsed[keep], evidence, float(polls.at[keep][-1]))
        taken += int(keep.sum())
    return taken
