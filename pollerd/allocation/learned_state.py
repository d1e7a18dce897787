"""Learned state as bytes: shared state as a JSON header line and little-endian arrays, site state as rows of numbers.

Shared state has a checksum of its arrays and their names, so that damage is reported as such. Rows have none: there is
one per site, and every allocator checks the range of its numbers.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pollerd.errors import InvalidValueError

ENVELOPE = 2
"""Version of the format, for all allocators. Version 1 had no checksum: such states are refused, and learned again."""


def pack(allocator: str, version: int, arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Returns bytes for `unpack`; names and dtypes are in the header, with a checksum (CRC-32)."""
    flat = {k: np.ascontiguousarray(v).reshape(-1) for k, v in arrays.items()}
    layout = [[k, v.dtype.newbyteorder("<").str, v.size] for k, v in flat.items()]
    body = b"".join(v.astype(v.dtype.newbyteorder("<"), copy=False).tobytes() for v in flat.values())
    what = {"allocator": allocator, "version": version, "envelope": ENVELOPE}
    header = {**what, "checksum": _checksum(layout, body), "arrays": layout}
    return json.dumps(header).encode() + b"\n" + body


def unpack(allocator: str, version: int, data: bytes) -> dict[str, NDArray[Any]]:
    """Returns the arrays of `pack`, flat, by name, all numbers finite.

    Raises InvalidValueError for foreign, older, newer or damaged bytes.
    """
    allowed = f"state of allocator {allocator!r}, version {version}, envelope {ENVELOPE}"
    head, line, body = data.partition(b"\n")
    try:
        header = json.loads(head) if line else {}
        origin = tuple(header.get(key) for key in ("allocator", "version", "envelope"))
    except (ValueError, AttributeError) as error:
        raise InvalidValueError("shared_state", allowed, head[:80]) from error
    if origin != (allocator, version, ENVELOPE):
        raise InvalidValueError("shared_state", allowed, origin)
    if _checksum(header.get("arrays"), body) != header.get("checksum"):
        raise InvalidValueError("shared_state", f"undamaged {allowed}", f"{len(data)} bytes with another checksum")
    out, at = {}, 0
    for name, code, size in header["arrays"]:
        dtype = np.dtype(code)
        out[name] = np.frombuffer(body, dtype, size, at).astype(dtype.newbyteorder("="))
        at += dtype.itemsize * size
        if dtype.kind == "f" and not np.isfinite(out[name]).all():
            raise InvalidValueError("shared_state", f"undamaged {allowed}", f"{name} with numbers that are not finite")
    return out


def _checksum(layout: object, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(json.dumps(layout).encode()))


def same_form(kept: Mapping[str, NDArray[Any]], own: Mapping[str, NDArray[Any]], varying: Collection[str] = ()) -> None:
    """Raises InvalidValueError unless `kept`, from `unpack`, has the names, kinds of number and sizes of `own`.

    varying: names whose size the caller checks.
    """
    if kept.keys() != own.keys():
        raise InvalidValueError("shared_state", f"arrays {', '.join(sorted(own))}", ", ".join(sorted(kept)))
    for name, array in own.items():
        if kept[name].dtype.kind != array.dtype.kind:
            raise InvalidValueError("shared_state", f"{name} of kind {array.dtype.kind}", kept[name].dtype.kind)
        if name not in varying and kept[name].size != array.size:
            raise InvalidValueError("shared_state", f"{name} of {array.size} numbers", f"{kept[name].size} numbers")


def not_negative_count(name: str, kept: Mapping[str, NDArray[Any]]) -> int:
    """Returns the single number of an array from `unpack`; raises InvalidValueError if it is below 0."""
    value = int(kept[name][0])
    if value < 0:
        raise InvalidValueError("shared_state", f"{name}, 0 or more", value)
    return value


def pack_rows(*columns: NDArray[np.float64], version: int | None = None) -> NDArray[np.uint8]:
    """Returns rows of little-endian float64 as uint8[k, 8 m]: the version, if given, then the columns side by side.

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
    """Returns the columns of `pack_rows`, float64[rows, fields], without the version.

    Raises InvalidValueError for another shape, dtype or version; the caller checks the values.
    """
    width = 8 * (fields + (version is not None))
    if site_state.shape != (rows, width) or site_state.dtype != np.uint8:
        raise InvalidValueError("site_state", f"uint8[{rows}, {width}]", site_state.shape)
    columns = np.ascontiguousarray(site_state).view("<f8").astype(np.float64).reshape(rows, width // 8)
    if version is None:
        return columns
    if (columns[:, 0] != version).any():
        raise InvalidValueError("site_state", f"rows of {allocator}, version {version}", columns[0, 0])
    return columns[:, 1:]


def all_sound(allocator: str, what: str, sound: NDArray[np.bool_], values: NDArray[Any]) -> None:
    """Raises InvalidValueError if a stored row of an allocator is not sound.

    what: description of the numbers and their range; sound bool[k, ...], values [k, ...] as stored.
    """
    if not sound.all():
        first = int(np.argwhere(~sound)[0, 0])
        raise InvalidValueError("site_state", f"rows of {allocator} with {what}", values[first].tolist())


# A policy's own random generator, whose state is stored with the learned state.


def own_generator(rng: np.random.Generator) -> tuple[np.random.PCG64, np.random.Generator]:
    """Returns a new generator, seeded from the caller's shared one."""
    bits = np.random.PCG64(int(rng.integers(2**63)))
    return bits, np.random.Generator(bits)


def dump_rng(bits: np.random.PCG64) -> NDArray[np.uint64]:
    """Returns the generator's state as four 64-bit numbers."""
    inner = bits.state["state"]
    return np.array([n >> shift & (2**64 - 1) for n in (inner["state"], inner["inc"]) for shift in (64, 0)], np.uint64)


def load_rng(bits: np.random.PCG64, kept: NDArray[np.uint64]) -> None:
    """Restores the output of `dump_rng`; raises InvalidValueError for anything but four numbers."""
    if len(kept) != 4:
        raise InvalidValueError("shared_state", "a stream's state of 4 numbers", f"{len(kept)} numbers")
    state_high, state_low, inc_high, inc_low = (int(n) for n in kept)
    inner: Any = {"state": state_high << 64 | state_low, "inc": inc_high << 64 | inc_low}
    bits.state = {"bit_generator": "PCG64", "state": inner, "has_uint32": 0, "uinteger": 0}
