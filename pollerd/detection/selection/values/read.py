"""The reading of one value from the texts that a selection found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal

from pollerd.detection.selection.values.cldr import excerpt, plain
from pollerd.detection.selection.values.dates import date_readings
from pollerd.detection.selection.values.form import Reading, ValueFormat
from pollerd.detection.selection.values.numbers import number_readings
from pollerd.model import READER
from pollerd.texts import N_, _

MAX_CHARACTERS = 20_000
"""Of all texts together: whatever is longer is no value."""
_NOT_STORABLE = {0: "\ufffd"} | dict.fromkeys(range(0xD800, 0xE000), "\ufffd")
_NONE = {
    "price": N_("no price"),
    "number": N_("no number"),
    "date": N_('no date (relative times as "3 hours ago" are not read)'),
}


def read_value(
    texts: Sequence[str],
    form: ValueFormat,
    *,
    language: str | None = None,
    machine: bool = False,
    reader: int = READER,
) -> Reading:
    """Reads the value of `texts` by a format; what cannot be read is a problem in the reading, never an error.

    `language`: the document's `lang`; it decides only where neither the format nor the number itself says what a
    separator means, and of a price its currency does not. `machine`: the texts are for programs (JSON, `content=`):
    "." parts the fraction, whatever the locale, and dates may be in ISO 8601 beside their format. `reader`: the version
    by which to read. Numbers have 30 digits at most, texts 20,000 characters
    together; the time is linear in them.
    """
    if not any(text and not text.isspace() for text in texts[:MAX_CHARACTERS]):
        return Reading(problem=_("nothing there: the text is empty"))
    if len(texts) > MAX_CHARACTERS or sum(map(len, texts)) > MAX_CHARACTERS:
        return Reading(problem=_("longer than {max_characters:,} characters", max_characters=MAX_CHARACTERS))
    if form.kind == "text":
        return _chosen(_text_readings(texts), form, _("nothing there: the text is empty"))
    spelled = [plain(text) for text in texts]
    if form.kind == "date":
        readings: Iterable[Reading] = date_readings(spelled, form, machine)
    else:
        readings = number_readings(spelled, form, language, machine, reader)
    shown = next(text for text in texts if text and not text.isspace()).strip()
    return _chosen(readings, form, _("{nothing} in {excerpt}", nothing=_(_NONE[form.kind]), excerpt=excerpt(shown)))


def _text_readings(texts: Sequence[str]) -> Iterator[Reading]:
    for text in texts:
        storable = text.translate(_NOT_STORABLE).strip()
        if storable:
            yield Reading(text=storable)


def _chosen(readings: Iterable[Reading], form: ValueFormat, none: str) -> Reading:
    """The one that counts. A problem counts where it could be the value."""
    all_readings = list(readings)
    if not all_readings:
        return Reading(problem=none)
    if form.which in ("first", "last"):
        return all_readings[0 if form.which == "first" else -1]
    bad = next((reading for reading in all_readings if reading.problem), None)
    if bad is not None:
        return bad
    if len({reading.currency for reading in all_readings}) > 1:
        return Reading(
            problem=_(
                "several currencies: {listed}", listed=_listed(reading.currency or "none" for reading in all_readings)
            )
        )
    if form.which == "only":
        return (
            all_readings[0]
            if len({_key(reading) for reading in all_readings}) == 1
            else Reading(problem=_several(all_readings))
        )
    return (min if form.which == "min" else max)(all_readings, key=_size)


def _key(reading: Reading) -> object:
    return reading.text if reading.moment is None else reading.moment


def _size(reading: Reading) -> Decimal | float:
    return reading.moment if reading.moment is not None else reading.number or Decimal(0)


def _several(readings: list[Reading]) -> str:
    return _("several different values: {listed}; set which", listed=_listed(reading.text for reading in readings))


def _listed(names: Iterable[str]) -> str:
    distinct = list(dict.fromkeys(names))
    return ", ".join(excerpt(name) for name in distinct[:3]) + (", …" if len(distinct) > 3 else "")
