"""The error hierarchy.

    PollerdError
    ├── PermanentError            a retry does not help
    │   ├── InvalidValueError     an invalid input: has the field, the allowed values, the given value
    │   ├── ConfigError           inconsistent settings, unknown variables
    │   ├── NotFoundError         no such site, change, allocator
    │   ├── DuplicateError        it exists already; has its id
    │   ├── ConflictError         it cannot be done as things stand
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

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pollerd.masking import NOT_SHOWN, masked
from pollerd.quantities import soon
from pollerd.texts import N_, _


class PollerdError(Exception):
    """Root of all errors that pollerd raises on purpose."""


class PermanentError(PollerdError):
    """A retry does not help."""


class TransientError(PollerdError):
    """A retry may succeed."""


class InvalidValueError(PermanentError, ValueError):
    """An invalid input. Of `given`, a text is stored as returned by `masking.masked`.

    allowed: what the value must be, such as "at least 1"; or, with `sentence`, all that is to be said (see `refusal`).
    """

    def __init__(self, field: str, allowed: str, given: object, *, sentence: bool = False) -> None:
        given = masked(given) if isinstance(given, str) else given
        self.field, self.allowed, self.given, self.sentence = field, allowed, given, sentence
        is_shown = not sentence and not (isinstance(given, str) and given == NOT_SHOWN)
        super().__init__(_("{text}; given: {given!r}", text=self.text, given=given) if is_shown else self.text)

    @property
    def text(self) -> str:
        """The error without the given value."""
        template = "{field}: {allowed}" if self.sentence else N_("{field}: must be {allowed}")
        return _(template, field=self.field, allowed=self.allowed)

    def of(self, field: str, *, given: object = None) -> InvalidValueError:
        """Returns the same error of another field, with the given value if that is to be another one."""
        given = self.given if given is None else given
        return InvalidValueError(field, self.allowed, given, sentence=self.sentence)

    def __reduce__(self) -> tuple[object, ...]:
        return (_remade, (self.field, self.allowed, self.given, self.sentence))


def _remade(field: str, allowed: str, given: object, sentence: bool) -> InvalidValueError:
    return InvalidValueError(field, allowed, given, sentence=sentence)


def refusal(field: str, sentence: str, given: object = None) -> InvalidValueError:
    """Returns the error for an input of which more is to be said than what it must be. given: the value, for REST."""
    return InvalidValueError(field, sentence, given, sentence=True)


def file_fault(file: object, error: OSError | ValueError) -> str:
    """Returns why a file cannot be read or written, in a sentence that names it. ValueError: it is not UTF-8."""
    folder = Path(str(file)).parent
    match error:
        case FileNotFoundError() if folder.is_dir():
            return _("there is no file {file}", file=file)
        case FileNotFoundError() | NotADirectoryError():
            return _("there is no folder {folder}", folder=folder)
        case IsADirectoryError():
            return _("{file} is a folder, not a file", file=file)
        case PermissionError():
            return _("the user who runs pollerd has no permission for {file}", file=file)
        case OSError():
            return _("{file} cannot be used: {reason}", file=file, reason=error.strerror)
    return _("{file} is not text in UTF-8", file=file)


_LISTED_MOST = 60
"""Known names that are listed where none is near."""
_LONGEST_NAME = 60


def unknown_name(
    field: str, what: str, name_given: str, known: Sequence[str], value: object = None
) -> InvalidValueError:
    """Returns the error for a name that is not known: with the nearest known one, or all known ones.

    what: the kind of thing that it names, such as "setting". value: what was given under that name, for REST.
    """
    near = nearest(name_given, known, most=1)
    if near:
        hint = _("did you mean {near}?", near=near)
    elif known:
        hint = _("known: {names}", names=", ".join(known)) if len(known) <= _LISTED_MOST else ""
    else:
        hint = _("there is no {thing}", thing=_(what))
    name = "" if field.rpartition(".")[2] == name_given else f" {masked(name_given[:_LONGEST_NAME])!r}"
    sentence = _("unknown {thing}{name}", thing=_(what), name=name)
    return refusal(field, f"{sentence}; {hint}" if hint else sentence, value)


def nearest(text: str, names: Iterable[str], most: int = 3) -> str:
    """Returns the names that were most likely meant, joined by commas; empty if none is near.

    First those that begin alike, then those with few letters that differ, then those that contain the text.
    """
    given = _plain(text[:_LONGEST_NAME])
    ranked = sorted((rank, name) for name in names if (rank := _distance_rank(given, _plain(name))) is not None)
    return ", ".join(name for _rank, name in ranked[:most])


_LETTERS_OF_AN_EDIT = 3
"""Letters of a name for each that can differ; shorter names are too much alike to guess."""
_MOST_EDITS = 3


def _plain(name: str) -> str:
    return name.casefold().replace("-", "_")


def _distance_rank(given: str, name: str) -> tuple[int, int] | None:
    """Returns how far a name is from the given one, to be compared; None: too far. Both as `_plain` returns them."""
    apart = abs(len(name) - len(given))
    short, long = sorted((given, name), key=len)
    is_telling = len(short) >= _LETTERS_OF_AN_EDIT and (short is given or 2 * len(short) >= len(long))
    if is_telling and long.startswith(short):
        return 0, apart
    most_edits = min(len(given) // _LETTERS_OF_AN_EDIT, _MOST_EDITS)
    if apart <= most_edits and (edits := _edits(given, name)) <= most_edits:
        return 1, edits
    return (2, apart) if is_telling and short in long else None


def _edits(one: str, other: str) -> int:
    """Returns how many letters are missing, too many, wrong or swapped with the next (optimal string alignment)."""
    before, last = list[int](), list(range(len(other) + 1))
    for row, letter in enumerate(one, 1):
        costs = [row]
        for column, wanted in enumerate(other, 1):
            cost = min(last[column] + 1, costs[-1] + 1, last[column - 1] + (letter != wanted))
            if row > 1 and column > 1 and letter == other[column - 2] and wanted == one[row - 2]:
                cost = min(cost, before[column - 2] + 1)
            costs.append(cost)
        before, last = last, costs
    return last[-1]


def with_nearest(allowed: str, name: str, names: Sequence[str], most: int = 1) -> str:
    """Returns what is allowed, with the nearest names behind if there are any."""
    hint = nearest(name, names, most)
    return _("{allowed} (nearest: {hint})", allowed=allowed, hint=hint) if hint else allowed


_ALLOWED = {
    **dict.fromkeys(("dict_type", "mapping_type", "model_type", "model_attributes_type"), N_("an object")),
    **dict.fromkeys(("list_type", "tuple_type", "set_type"), N_("a list")),
    "string_type": N_("a text"),
    **dict.fromkeys(("bool_type", "bool_parsing"), N_("true or false")),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), N_("a whole number")),
    **dict.fromkeys(("float_type", "float_parsing"), N_("a number")),
    "finite_number": N_("a finite number"),
    **dict.fromkeys(
        ("datetime_type", "datetime_parsing", "datetime_from_date_parsing"),
        N_("a date with a time, for example 2026-01-31T12:00:00Z"),
    ),
    "greater_than_equal": N_("at least {ge}"),
    "less_than_equal": N_("at most {le}"),
    "greater_than": N_("more than {gt}"),
    "less_than": N_("less than {lt}"),
    "string_too_short": N_("a text with {min_length} or more characters"),
    "string_too_long": N_("a text with {max_length} or fewer characters"),
    "too_short": N_("a list with {min_length} or more entries"),
    "too_long": N_("a list with {max_length} or fewer entries"),
}
"""By the types of pydantic's errors."""


def allowed_by(fault: Mapping[str, Any]) -> str:
    """Returns what a value must be, by one of the errors of pydantic: "a whole number", "at least 1"."""
    if fault["type"] in _ALLOWED:
        return _(_ALLOWED[fault["type"]], **fault.get("ctx", {}))
    if fault["type"] == "literal_error":
        return str(fault["ctx"]["expected"]).replace(" or ", _(" or "))
    return str(fault["msg"]).removeprefix("Input should be ").removeprefix("Value error, ")


_KINDS = {
    str: N_("a text"),
    bool: N_("true or false"),
    int: N_("a number"),
    float: N_("a number"),
    list: N_("a list"),
    dict: N_("an object"),
    type(None): N_("null"),
}


def kind_of(value: object) -> str:
    """Returns what a value of JSON, TOML or YAML is, such as "a text", for errors that do not show it."""
    return _(_KINDS.get(type(value), "")) or type(value).__name__


class ConfigError(PermanentError):
    """Inconsistent settings."""


class NotFoundError(PermanentError, LookupError):
    """The object does not exist."""

    def __init__(self, what: str, key: object) -> None:
        super().__init__(_("no such {thing}: {key}", thing=_(what), key=key))
        self.what, self.key = what, key


class DuplicateError(PermanentError):
    """The object exists already."""

    def __init__(self, what: str, key: object, existing_id: int) -> None:
        super().__init__(
            _("{thing} exists already: {key} (id {existing_id})", thing=_(what), key=key, existing_id=existing_id)
        )
        self.what, self.key, self.existing_id = what, key, existing_id


class ConflictError(PermanentError):
    """It cannot be done as things stand; the message says what has to change first."""


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
        super().__init__(_("{field}: more than {most:,} {limit}", field=field, most=most, limit=limit))
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
        super().__init__(_("too many {things}: try again {when}", things=_(what), when=soon(seconds)))
        self.what, self.seconds = what, seconds
