"""Learned state as versioned bytes: a header line of JSON, then little-endian arrays one after the other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pollerd.errors import InvalidValueError


def pack(allocator: str, version: int, arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Bytes that `unpack` takes apart; names and dtypes travel in the header."""
    flat = {k: np.ascontiguousarray(v).reshape(-1) for k, v in arrays.items()}
    layout = [[k, v.dtype.newbyteorder("<").str, v.size] for k, v in flat.items()]
    header = json.dumps({"allocator": allocator, "version": version, "arrays": layout})
    body = b"".join(v.astype(v.dtype.newbyteorder("<"), copy=False).tobytes() for v in flat.values())
    return header.encode() + b"\n" + body


def unpack(allocator: str, version: int, data: bytes) -> dict[str, NDArray[Any]]:
    """The arrays of `pack`, flat, by name; raises InvalidValueError for other, older, newer or damaged bytes."""
    allowed = f"state of allocator {allocator!r}, version {version}"
    head, line, body = data.partition(b"\n")
    try:
        header = json.loads(head) if line else {}
        given = (header.get("allocator"), header.get("version"))
        layout = [(str(k), np.dtype(d), int(size)) for k, d, size in header.get("arrays", [])]
    except (ValueError, TypeError, AttributeError) as error:
        raise InvalidValueError("shared_state", allowed, head[:80]) from error
    if given != (allocator, version):
        raise InvalidValueError("shared_state", allowed, given)
    if sum(d.itemsize * size for _, d, size in layout) != len(body):
        raise InvalidValueError("shared_state", f"undamaged {allowed}", f"{len(body)} bytes")
    out, at = {}, 0
    for name, dtype, size in layout:
        out[name] = np.frombuffer(body, dtype, size, at).astype(dtype.newbyteorder("="))
        at += dtype.itemsize * size
    return out
