"""Learned state as bytes: in common, a header line of JSON and little-endian arrays; of sites, rows of numbers."""

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


def pack_rows(*columns: NDArray[np.float64], version: int | None = None) -> NDArray[np.uint8]:
    """Rows of little-endian float64 as uint8[k, 8 m]: the version, if one is given, then the columns side by side.

    columns float64[k] or float64[k, fields].
    """
    k = len(columns[0])
    wide = [column[:, None] if column.ndim == 1 else column for column in columns]
    if version is not None:
        wide.insert(0, np.full((k, 1), float(version)))
    rows = np.ascontiguousarray(np.concatenate(wide, axis=1).astype("<f8"))
    return rows.view(np.uint8).reshape(k, 8 * rows.shape[1])


def unpack_rows(
    allocator: str, site_state: NDArray[np.uint8], rows: int, fields: int, *, version: int | None = None
) -> NDArray[np.float64]:
    """The columns of `pack_rows`, float64[rows, fields], without the version.

    Raises InvalidValueError for another shape, dtype or version; what the numbers may be the caller knows.
    """
    width = 8 * (fields + (version is not None))
    if site_state.shape != (rows, width) or site_state.dtype != np.uint8:
        raise InvalidValueError("site_state", f"uint8[{rows}, {width}]", site_state.shape)
    found = np.ascontiguousarray(site_state).view("<f8").astype(np.float64).reshape(rows, width // 8)
    if version is None:
        return found
    if (found[:, 0] != version).any():
        raise InvalidValueError("site_state", f"rows of {allocator}, version {version}", found[0, 0])
    return found[:, 1:]
