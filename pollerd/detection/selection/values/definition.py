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
from pollerd.texts import N_, _

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
    options = {key: value for key, value in definition.items() if value is not None}
    kind = _one_of(f"{field}.kind", options.get("kind"), get_args(Kind))
    _check_keys(field, kind, options)
    whiches = get_args(Which) if kind != "text" else ("only", "first", "last")
    locale = _locale(f"{field}.locale", _text(field, "locale", options))
    form = ValueFormat(
        kind=cast("Kind", kind),
        which=cast("Which", _one_of(f"{field}.which", options.get("which", "only"), whiches)),
        locale=locale,
        decimal=_separator(f"{field}.decimal", _text(field, "decimal", options), _DECIMALS),
        group=_separator(f"{field}.group", _text(field, "group", options), _GROUPS),
        currency=_currency(f"{field}.currency", _text(field, "currency", options)),
        format=_date_format(f"{field}.format", _text(field, "format", options), locale),
        zone=_zone(f"{field}.zone", _text(field, "zone", options)),
        step=_step(f"{field}.step", options.get("step")),
    )
    if form.decimal is not None and form.decimal == form.group:
        raise InvalidValueError(f"{field}.group", _("another character than decimal"), form.group)
    if kind == "date" and locale is not None and form.format is None:
        patterns_of_locale(locale)
    return form


def _check_keys(field: str, kind: str, fields: Mapping[str, object]) -> None:
    for key in fields:
        if key not in _EVERY_KEY:
            raise unknown_name(f"{field}.{key}", N_("field"), key, _KEYS[kind])
        if key not in _KEYS[kind]:
            raise refusal(
                f"{field}.{key}",
                _("a {kind} has no {key}; it has {keys}", kind=kind, key=key, keys=", ".join(_KEYS[kind])),
            )


def _listed(names: tuple[str, ...]) -> str:
    return _("one of {names}", names=", ".join(names))


def _one_of(field: str, value: object, allowed: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in allowed:
        raise InvalidValueError(field, with_nearest(_listed(allowed), str(value), allowed), value)
    return value


def _text(field: str, key: str, fields: Mapping[str, object]) -> str | None:
    value = fields.get(key)
    if value is not None and not isinstance(value, str):
        raise InvalidValueError(f"{field}.{key}", _("a text"), value)
    return value


def _locale(field: str, value: str | None) -> str | None:
    if value is None or cldr.locale_of(value) is not None:
        return value
    locales, allowed = cldr.nearest_locales(value), _("a locale of CLDR such as de-DE")
    raise InvalidValueError(
        field, _("{allowed} (nearest: {hint})", allowed=allowed, hint=locales) if locales else allowed, value
    )


def _separator(field: str, value: str | None, allowed: tuple[str, ...]) -> str | None:
    if value is None:
        return None
    separator = plain(value).replace("\u202f", " ")
    if separator not in allowed:
        raise InvalidValueError(field, _("one of {names}", names=" ".join(f'"{sign}"' for sign in allowed)), value)
    return separator


def _currency(field: str, value: str | None) -> str | None:
    if value is not None and value not in CODES:
        raise InvalidValueError(field, with_nearest(_("a code of ISO 4217 such as EUR"), value, sorted(CODES)), value)
    return value


def _date_format(field: str, value: str | None, locale: str | None) -> str | None:
    if value is not None:
        try:
            pattern_of(value, locale)
        except InvalidValueError as error:
            raise error.of(field, given=value) from None
    return value


def _zone(field: str, value: str | None) -> str | None:
    if value is not None and zone_of(value) is None:
        raise InvalidValueError(
            field, with_nearest(_("a time zone of the IANA database such as Europe/Berlin"), value, zone_names()), value
        )
    return value


def _step(field: str, value: object) -> Decimal | None:
    if value is None:
        return None
    allowed = _("a number above 0, at most {step_digits} digits", step_digits=_STEP_DIGITS)
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise InvalidValueError(field, allowed, value)
    try:
        step = Decimal(str(value))
    except (InvalidOperation, ValueError) as error:  # an int of more digits than str() takes is a ValueError
        raise InvalidValueError(field, allowed, "a number") from error
    if (
        not step.is_finite()
        or step <= 0
        or abs(step.adjusted()) > _STEP_DIGITS
        or len(step.as_tuple().digits) > _STEP_DIGITS
    ):
        raise InvalidValueError(field, allowed, value)
    return step
