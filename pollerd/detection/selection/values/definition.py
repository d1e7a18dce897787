"""Definitions of values, checked, with the nearest name for a misspelled one."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import cast, get_args

from pollerd.detection.selection.values import cldr
from pollerd.detection.selection.values.cldr import plain
from pollerd.detection.selection.values.currencies import CODES
from pollerd.detection.selection.values.dates import pattern_of, patterns_of_locale, zone_names, zone_of
from pollerd.detection.selection.values.form import Kind, ValueFormat, Which
from pollerd.errors import InvalidValueError, refusal, unknown_name, with_nearest

_NUMBER_KEYS = ("kind", "which", "locale", "decimal", "group", "step")
_KEYS: dict[str, tuple[str, ...]] = {
    "price": (*_NUMBER_KEYS, "currency"),
    "number": _NUMBER_KEYS,
    "date": ("kind", "which", "locale", "format", "zone"),
    "text": ("kind", "which"),
}
_EVERY_KEY = (*_NUMBER_KEYS, "currency", "format", "zone")
_DECIMALS, _GROUPS = (".", ",", "٫", "·"), (".", ",", "'", " ", "٬")
_STEP_DIGITS = 30


def compile_value_format(field: str, definition: Mapping[str, object]) -> ValueFormat:
    """Returns the format that a definition says: `kind`, and by kind `which`, `locale`, `decimal`, `group`, `step`,
    `currency`, `format`, `zone` (see `ValueFormat`). None stands for a key that is not there.

    `field`: where the definition stands, as in "values.price"; errors name it and the key. Raises InvalidValueError.
    """
    given = {key: value for key, value in definition.items() if value is not None}
    kind = _one_of(f"{field}.kind", given.get("kind"), get_args(Kind))
    _check_keys(field, kind, given)
    whiches = get_args(Which) if kind != "text" else ("only", "first", "last")
    locale = _locale(f"{field}.locale", _text(field, "locale", given))
    form = ValueFormat(
        kind=cast("Kind", kind),
        which=cast("Which", _one_of(f"{field}.which", given.get("which", "only"), whiches)),
        locale=locale,
        decimal=_separator(f"{field}.decimal", _text(field, "decimal", given), _DECIMALS),
        group=_separator(f"{field}.group", _text(field, "group", given), _GROUPS),
        currency=_currency(f"{field}.currency", _text(field, "currency", given)),
        format=_date_format(f"{field}.format", _text(field, "format", given), locale),
        zone=_zone(f"{field}.zone", _text(field, "zone", given)),
        step=_step(f"{field}.step", given.get("step")),
    )
    if form.decimal is not None and form.decimal == form.group:
        raise InvalidValueError(f"{field}.group", "another character than decimal", form.group)
    if kind == "date" and locale is not None and form.format is None:
        patterns_of_locale(locale)
    return form


def _check_keys(field: str, kind: str, given: Mapping[str, object]) -> None:
    for key in given:
        if key not in _EVERY_KEY:
            raise unknown_name(f"{field}.{key}", "field", key, _KEYS[kind])
        if key not in _KEYS[kind]:
            raise refusal(f"{field}.{key}", f"a {kind} has no {key}; it has {', '.join(_KEYS[kind])}")


def _listed(names: tuple[str, ...]) -> str:
    return f"one of {', '.join(names)}"


def _one_of(field: str, given: object, allowed: tuple[str, ...]) -> str:
    if not isinstance(given, str) or given not in allowed:
        raise InvalidValueError(field, with_nearest(_listed(allowed), str(given), allowed), given)
    return given


def _text(field: str, key: str, given: Mapping[str, object]) -> str | None:
    value = given.get(key)
    if value is not None and not isinstance(value, str):
        raise InvalidValueError(f"{field}.{key}", "a text", value)
    return value


def _locale(field: str, given: str | None) -> str | None:
    if given is None or cldr.locale_of(given) is not None:
        return given
    found = cldr.nearest_locales(given)
    raise InvalidValueError(field, "a locale of CLDR such as de-DE" + (f" (nearest: {found})" if found else ""), given)


def _separator(field: str, given: str | None, allowed: tuple[str, ...]) -> str | None:
    if given is None:
        return None
    separator = plain(given).replace("\u202f", " ")
    if separator not in allowed:
        raise InvalidValueError(field, "one of " + " ".join(f'"{sign}"' for sign in allowed), given)
    return separator


def _currency(field: str, given: str | None) -> str | None:
    if given is not None and given not in CODES:
        raise InvalidValueError(field, with_nearest("a code of ISO 4217 such as EUR", given, sorted(CODES)), given)
    return given


def _date_format(field: str, given: str | None, locale: str | None) -> str | None:
    if given is not None:
        try:
            pattern_of(given, locale)
        except InvalidValueError as error:
            raise error.of(field, given=given) from None
    return given


def _zone(field: str, given: str | None) -> str | None:
    if given is not None and zone_of(given) is None:
        raise InvalidValueError(
            field, with_nearest("a time zone of the IANA database such as Europe/Berlin", given, zone_names()), given
        )
    return given


def _step(field: str, given: object) -> Decimal | None:
    if given is None:
        return None
    allowed = f"a number above 0, at most {_STEP_DIGITS} digits"
    if isinstance(given, bool) or not isinstance(given, int | float | Decimal):
        raise InvalidValueError(field, allowed, given)
    try:
        step = Decimal(str(given))
    except (InvalidOperation, ValueError) as error:  # an int of more digits than str() takes is a ValueError
        raise InvalidValueError(field, allowed, "a number") from error
    if (
        not step.is_finite()
        or step <= 0
        or abs(step.adjusted()) > _STEP_DIGITS
        or len(step.as_tuple().digits) > _STEP_DIGITS
    ):
        raise InvalidValueError(field, allowed, given)
    return step
