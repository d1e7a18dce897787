"""The error hierarchy.

    PollerdError
    ├── PermanentError            a retry does not help
    │   ├── InvalidValueError     an invalid input: has the field, the allowed values, the given value
    │   ├── ConfigError           inconsistent settings, unknown variables
    │   ├── NotFoundError         no such site, change, allocator
    │   ├── DuplicateError        it exists already; has its id
    │   ├── DatabaseInUseError    another daemon holds the lock
    │   ├── SchemaError           the schema is newer than this program, or damaged
    │   ├── FaultEverywhereError  our own code raises at every site
    │   └── TooHeavyError         a piece of work on foreign data takes more time or memory than it may
    │       └── SelectionLimitError   a page takes more than a selection may use
    └── TransientError            a retry may succeed
        ├── DatabaseUnavailableError   locked, full, vanished, or not answering
        ├── HolderUnavailableError     no node holds the site at present, or the one that does gives no answer
        └── TooManyError               more than may be sent in a time; has the seconds to wait

A site's own failures are never exceptions: fetching returns them as `Outcome` values. Exceptions of libraries are
mapped where they enter, with their cause kept.
"""

from __future__ import annotations

from pollerd.masking import masked
from pollerd.quantities import soon


class PollerdError(Exception):
    """Root of all errors that pollerd raises on purpose."""


class PermanentError(PollerdError):
    """A retry does not help."""


class TransientError(PollerdError):
    """A retry may succeed."""


class InvalidValueError(PermanentError, ValueError):
    """An invalid input. Of `given`, a text is stored as returned by `masking.masked`."""

    def __init__(self, field: str, allowed: str, given: object) -> None:
        given = masked(given) if isinstance(given, str) else given
        super().__init__(f"{field}: must be {allowed}; given: {given!r}")
        self.field, self.allowed, self.given = field, allowed, given

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.field, self.allowed, self.given))


class ConfigError(PermanentError):
    """Inconsistent settings."""


class NotFoundError(PermanentError, LookupError):
    """The object does not exist."""

    def __init__(self, what: str, key: object) -> None:
        super().__init__(f"no such {what}: {key}")
        self.what, self.key = what, key


class DuplicateError(PermanentError):
    """The object exists already."""

    def __init__(self, what: str, key: object, existing_id: int) -> None:
        super().__init__(f"{what} exists already: {key} (id {existing_id})")
        self.what, self.key, self.existing_id = what, key, existing_id


class DatabaseInUseError(PermanentError):
    """Another daemon holds the database."""


class SchemaError(PermanentError):
    """The database's schema does not fit this program."""


class FaultEverywhereError(PermanentError):
    """Our own code raises at every site: no site is to blame, and excluding them one by one would hide the fault."""


class TooHeavyError(PermanentError):
    """Work on a page or template takes more time or memory than it may: only its own site or channel is concerned."""


class SelectionLimitError(TooHeavyError):
    """Selecting from a page would take more time or memory than one page may: only its own site is concerned."""

    def __init__(self, field: str, limit: str, most: int) -> None:
        super().__init__(f"{field}: more than {most:,} {limit}")
        self.field, self.limit, self.most = field, limit, most

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.field, self.limit, self.most))


class DatabaseUnavailableError(TransientError):
    """The database is locked, full, vanished or not answering."""


class HolderUnavailableError(TransientError):
    """No node holds the site at present, or the one that does gives no answer."""


class TooManyError(TransientError):
    """More was sent than may be in a time; nothing of it was taken."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"too many {what}: try again {soon(seconds)}")
        self.what, self.seconds = what, seconds
