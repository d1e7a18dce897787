"""Windows of sites as they are stored: JSON, equal ones read once."""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from pollerd.errors import InvalidValueError
from pollerd.model import Windows
from pollerd.storage.encoding.row_repair import Field


class WindowsRead(dict[str | None, int]):
    """Number of each text of windows, from 1, and 0 for none; reads those that are new.

    Raises ValueError for a text that cannot be read.
    """

    def __init__(self) -> None:
        super().__init__({None: 0})
        self._values: list[Windows] = []

    def __missing__(self, text: str | None) -> int:
        self._values.append(decode_windows(text))
        self[text] = len(self._values)
        return len(self._values)

    def field(self) -> Field:
        """Returns the column of these numbers."""
        return Field("windows", np.int32, "windows, as a site has them", 0, self)

    def of_sites(self, site_ids: NDArray[np.int64], numbers: NDArray[np.int32]) -> dict[int, Windows]:
        """Returns the windows of sites int64[k] with these numbers, by site id; others are missing."""
        some = np.flatnonzero(numbers)
        pairs = zip(site_ids[some].tolist(), numbers[some].tolist(), strict=True)
        return {site_id: self._values[number - 1] for site_id, number in pairs}


def decode_windows(text: str | None) -> Windows:
    """Returns stored windows. Raises ValueError, also for a zone that is not known any more."""
    try:
        return usable_windows(msgspec.json.decode(text or "", type=Windows))
    except (msgspec.MsgspecError, TypeError) as error:
        raise ValueError(str(error)) from error


def usable_windows(windows: Windows) -> Windows:
    """Returns the windows, which the scheduler can go by. Raises ValueError."""
    from pollerd.scheduling.windows import opening_times  # not for who has none

    try:
        opening_times(windows)
    except InvalidValueError as error:
        raise ValueError(str(error)) from error
    return windows


def encode_windows(windows: Windows | None) -> str | None:
    """Returns windows as they are stored."""
    return None if windows is None else msgspec.json.encode(windows).decode()
