"""Which node holds how many of what is shared out one by one, so that all hold equally many and few move."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping


def quota(held: Mapping[int, int], node: int, units: int) -> int:
    """Returns how many of `units` the node should hold.

    held: how many each living node holds, by its id, `node` among them. All nodes that see the same numbers agree, and
    the quotas add up to `units`. Those that hold most get what cannot be divided, so that as few as possible move.
    """
    least, rest = divmod(units, len(held))
    order = sorted(held, key=lambda one: (-held[one], one))
    return least + (order.index(node) < rest)


def to_take(free: Collection[int], node: int, number: int) -> list[int]:
    """Returns up to `number` of the free units for the node to try.

    Nodes that try at once begin at different ones, so that few attempts are in vain.
    """
    order = sorted(free)
    start = (node * 2_654_435_761) % max(len(order), 1)
    return [*order[start:], *order[:start]][:number]


def to_release(held: Iterable[int], quota: int) -> list[int]:
    """Returns the units that are held beyond the quota: those with the highest numbers."""
    return sorted(held)[quota:]
