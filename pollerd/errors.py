"""The error tree.

    PollerdError
    ├── PermanentError            trying again does not help
    │   ├── InvalidValueError     a value from outside: names the field, what is allowed, what was given
    │   ├── ConfigError           settings that do not fit together, unknown variables
    │   ├── NotFoundError         no such site, change, allocator
    │   ├── DuplicateError        it exists already; carries its id
    │   ├── DatabaseInUseError    another daemon holds the lock
    │   ├── SchemaError           the schema is newer than this program, or damaged
    │   └── FaultEverywhereError  something of ours raises at every site
    └── TransientError            the same call may go through later
        └── DatabaseUnavailableError   locked, full, vanished, or not answering

A site's own failures are never exceptions: fetching returns them as `Outcome` values. Foreign exceptions are mapped
where they enter, with their cause kept.
"""

from __future__ import annotations

from pollerd.masking import masked


class PollerdError(Exception):
    """Root of all errors that pollerd raises on purpose."""


class PermanentError(PollerdError):
    """Trying again does not help."""


class TransientError(PollerdError):
    """The same call may go through later."""


class InvalidValueError(PermanentError, ValueError):
    """A value from outside that cannot be used. Of `given`, a text is kept as `masking.masked` tells it."""

    def __init__(self, field: str, allowed: str, given: object) -> None:
        given = masked(given) if isinstance(given, str) else given
        super().__init__(f"{field}: must be {allowed}; given: {given!r}")
        self.field, self.allowed, self.given = field, allowed, given

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.field, self.allowed, self.given))


class ConfigError(PermanentError):
    """Settings that do not fit together."""


class NotFoundError(PermanentError, LookupError):
    """There is no such thing."""

    def __init__(self, what: str, key: object) -> None:
        super().__init__(f"no such {what}: {key}")
        self.what, self.key = what, key


class DuplicateError(PermanentError):
    """It exists already."""

    def __init__(self, what: str, key: object, existing_id: int) -> None:
        super().__init__(f"{what} exists already: {key} (id {existing_id})")
        self.what, self.key, self.existing_id = what, key, existing_id


class DatabaseInUseError(PermanentError):
    """Another daemon holds the database."""


class SchemaError(PermanentError):
    """The database's schema does not fit this program."""


class FaultEverywhereError(PermanentError):
    """Something of ours raises at every site: no site is to blame, and setting them aside one by one hides it."""


class DatabaseUnavailableError(TransientError):
    """The database is locked, full, vanished or not answering."""
