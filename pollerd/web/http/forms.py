"""What a form posted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated, TypeVar

from fastapi import Depends, Request
from starlette.datastructures import FormData, UploadFile

from pollerd.api.http.limits import check_tag
from pollerd.errors import InvalidValueError
from pollerd.quantities import seconds

E = TypeVar("E", bound=StrEnum)
_FIELDS = 5_000
_PART_BYTES = 64 * 1024 * 1024


class PostedForm:
    """The fields of a form, as text."""

    def __init__(self, data: FormData) -> None:
        self._data = data

    def text(self, name: str) -> str:
        """Returns a field without the space around it; empty where it was not sent."""
        value = self._data.get(name, "")
        return value.strip() if isinstance(value, str) else ""

    def whole(self, name: str) -> str:
        """Returns a field as it was sent, as passwords must be; empty where it was not sent."""
        value = self._data.get(name, "")
        return value if isinstance(value, str) else ""

    def texts(self, name: str) -> Sequence[str]:
        """Returns all fields of a name."""
        return [value for value in self._data.getlist(name) if isinstance(value, str)]

    def tags(self, name: str) -> list[str]:
        """Returns tags given in one field, as `tags_in_one_field` writes them. Raises `InvalidValueError`."""
        text = self.text(name)
        return [check_tag(one, name) for one in text.split(";" if ";" in text else ",") if one.strip()]

    def has(self, name: str) -> bool:
        """Returns whether the field was sent: of a box, whether it is ticked."""
        return name in self._data

    async def file(self, name: str) -> bytes:
        """Returns the contents of a sent file; empty where none was chosen."""
        value = self._data.get(name)
        return await value.read() if isinstance(value, UploadFile) else b""

    def numbers(self, name: str) -> list[int]:
        """Returns all fields of a name as ids. Raises `InvalidValueError`."""
        found = self.texts(name)
        if not all(one.isascii() and one.isdecimal() and len(one) < 20 for one in found):
            raise InvalidValueError(name, "ids", ", ".join(found)[:100])
        return [int(one) for one in found]

    def optional_number(self, name: str) -> float | None:
        """Returns a number; None where the field is empty. Raises `InvalidValueError`."""
        return number_of(name, self.text(name)) if self.text(name) else None

    def optional_duration(self, name: str) -> float | None:
        """Returns seconds, of texts like "90" and "1.5h"; None where it is empty. Raises `InvalidValueError`."""
        return seconds_of(name, self.text(name)) if self.text(name) else None


def tags_in_one_field(tags: Iterable[str]) -> str:
    """Returns tags as one field shows them: separated by commas, or by semicolons if one of them has a comma."""
    shown = list(tags)
    return "; ".join(shown) + ";" if any("," in one for one in shown) else ", ".join(shown)


def number_of(name: str, text: str) -> float:
    """Returns the number that a field or parameter says. Raises `InvalidValueError`."""
    try:
        return float(text)
    except ValueError:
        raise InvalidValueError(name, "a number", text) from None


def seconds_of(name: str, text: str) -> float:
    """Returns the seconds that a field or parameter says, as in "90" and "1.5h". Raises `InvalidValueError`."""
    try:
        return seconds(text)
    except ValueError as error:
        raise InvalidValueError(name, str(error), text) from None


def one_of(kind: type[E], name: str, text: str) -> E:
    """Returns the value of an enumeration that a field or parameter names. Raises `InvalidValueError`."""
    try:
        return kind(text)
    except ValueError:
        raise InvalidValueError(name, "one of " + ", ".join(kind), text) from None


async def posted_form(request: Request) -> PostedForm:
    """Returns the form; the same one whenever it is asked for."""
    return PostedForm(await request.form(max_fields=_FIELDS, max_part_size=_PART_BYTES))


Posted = Annotated[PostedForm, Depends(posted_form)]
