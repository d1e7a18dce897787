"""Ensures one daemon per SQLite file, by a lock that ends with its process."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from pollerd.errors import DatabaseInUseError, DatabaseUnavailableError


class FileLock:
    """A lock on a file beside the database; the kernel releases it when the process ends, however that happens."""

    def __init__(self, path: Path) -> None:
        """Raises `DatabaseInUseError` if another process holds it, `DatabaseUnavailableError`."""
        try:
            self._file: int | None = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        except OSError as error:
            raise DatabaseUnavailableError(f"{path}: {error.strerror}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._file, 32, 0).decode("ascii", "replace").strip() or "unknown"
            self.release()
            raise DatabaseInUseError(f"another daemon (process {holder}) holds {path}") from error
        try:
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            self.release()
            raise DatabaseUnavailableError(f"{path}: {error.strerror}") from error

    def release(self) -> None:
        """Releases the lock; may be called twice. The file stays: else two daemons could lock two files of one name."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
