"""Clocks: times of day, and times since or until something, that follow the time between polls.

A time in a page is a clock only if it shows when the page was asked, at two polls, whatever its zone is. The times of
things (published, valid until, opens) are none, because they stay, or by the words before them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pollerd.detection.noise.forms import compiled

_HALF_DAY = 43_200
"""Times are compared modulo 12 hours, so that `am` and `pm`, in any language, need not be read."""
_ZONE = 900
"""Zones differ by multiples of a quarter of an hour, s."""
_OFF_SECONDS, _OFF_MINUTES = 20.0, 90.0
"""How far a clock may be wrong or late, s: one that shows seconds, and one that shows minutes."""
_DRIFT_SECONDS, _DRIFT_MINUTES = 5.0, 75.0
"""How far it may be from the time between two polls, s."""
_LONGEST_LINE = 1_024

_TIME = (
    r"(?<![\d:.,/€$£-])(?P<h>[01]?\d|2[0-3])(?::|h(?= ?\d\d(?!\d))|時|时|點|点|시) ?(?P<m>[0-5]\d)"
    r"(?:(?::|分|분|m) ?(?P<s>[0-5]\d)(?:[.,]\d{1,9})?|(?:分|분))?(?:秒|초)?(?: ?[ap]\.?m(?!\w)\.?)?(?![\d:/%])"
    r"|(?:kl\.?|klo) ?(?P<h3>[01]?\d|2[0-3])\.(?P<m3>[0-5]\d)(?![\d.,])"
    r"|(?<![\d:.,])(?P<h4>[01]?\d|2[0-3])\.(?P<m4>[0-5]\d)(?= uhr)"
    r"|(?<!\d)20\d{6}T?(?P<h2>[01]\d|2[0-3])(?P<m2>[0-5]\d)(?P<s2>[0-5]\d)(?!\d)"
    r"|(?<![\d.])(?P<epoch>1[5-9]\d{8})(?P<ms>\d{3})?(?!\d)"
)
_OF_THINGS = (
    r"publish|posted|released?\b|valid|expires?|until|deadline|starts?\b|begins?\b|ends?\b|opens?\b|opening|closes?\b"
    r"|arriv|depart|deliver|sunrise|sunset|kick-?off|veröffentlicht|erschienen|gültig|läuft ab|\bbis\b|beginn|öffn"
    r"|schließt|abfahrt|ankunft|anpfiff|publié|posté|valable|expire|jusqu|début|ouvre|ferme|départ|arrivée|publicado"
    r"|válid|caduca|vence|hasta|comienza|abre|cierra|salida|llegada|pubblicat|valid|scade|fino a|inizi|apre|chiude"
    r"|partenza|arrivo|publicad|expira|até|começa|fecha|partida|chegada|gepubliceerd|geplaatst|geldig|verloopt|\btot\b"
    r"|begint|vertrek|aankomst|opublikowan|ważn|wygasa|\bdo\b|początek|otwarcie|odjazd|przyjazd|опубликован|действ"
    r"|истекает|\bдо\b|начал|откры|отправлени|прибыти|公開|掲載|有効|期限|締切|開始|終了|まで|出発|到着|发布|發布|有效|截止|到期"
    r"|开始|開始|结束|結束|出发|到达"
)
_LOOKED_BACK = 40
"""Characters before a time in which the words are looked for."""
_NAME = "\ufdd0clock\ufdd1"


@dataclass(frozen=True, slots=True)
class _Time:
    """A time of a line: where it stands, what it says in s, of the day or, if `absolute`, of the epoch."""

    text: str
    says: float
    fine: bool
    """Whether it shows seconds."""
    absolute: bool


def is_clock(before: str, after: str, at_before: float, at_after: float) -> bool:
    """Returns whether two lines differ only in times that show when they were read, `at_before` and `at_after`.

    Both are epoch s; the line was the same at `at_before` as it is in `before`. False if they do not differ.
    """
    if max(len(before), len(after)) > _LONGEST_LINE or before == after:
        return False
    times, others = list(_times(before)), list(_times(after))
    if len(times) != len(others) or compiled(_TIME).sub(_NAME, before) != compiled(_TIME).sub(_NAME, after):
        return False
    differing = [(moment, other) for moment, other in zip(times, others, strict=True) if moment.text != other.text]
    return not _names_a_thing(after) and all(_follows(*pair, at_before, at_after) for pair in differing)


def has_time(line: str) -> bool:
    """Returns whether there is a time of day or an epoch in the line."""
    return compiled(_TIME).search(line) is not None


def _names_a_thing(line: str) -> bool:
    words = compiled(_OF_THINGS)
    starts = [match.start() for match in compiled(_TIME).finditer(line)]
    return any(words.search(line, max(start - _LOOKED_BACK, 0), start) for start in starts)


def _times(line: str) -> Iterator[_Time]:
    for match in compiled(_TIME).finditer(line):
        if match["epoch"]:
            yield _Time(match[0], float(match["epoch"]), fine=True, absolute=True)
            continue
        hour, minute, second = (
            next(
                (match[name + n] for n in ("", "2", "3", "4") if name + n in match.re.groupindex and match[name + n]),
                "",
            )
            for name in ("h", "m", "s")
        )
        says = int(hour) * 3600 + int(minute) * 60 + int(second or 0)
        yield _Time(match[0], float(says), fine=bool(second), absolute=False)


def _follows(moment: _Time, other: _Time, at_one: float, at_other: float) -> bool:
    """Returns whether both times are those of their polls, in one zone."""
    if moment.absolute or other.absolute:
        return moment.absolute and other.absolute and _is_now(moment.says, at_one) and _is_now(other.says, at_other)
    fine = moment.fine and other.fine
    most_off, most_drift = (_OFF_SECONDS, _DRIFT_SECONDS) if fine else (_OFF_MINUTES, _DRIFT_MINUTES)
    offset, other_offset = moment.says - at_one, other.says - at_other
    drift = _near_zero(other_offset - offset, _HALF_DAY)
    return abs(drift) <= most_drift and all(abs(_near_zero(off, _ZONE)) <= most_off for off in (offset, other_offset))


def _is_now(says: float, at: float) -> bool:
    return abs(says - at) <= _OFF_SECONDS


def _near_zero(value: float, period: int) -> float:
    """Returns the value modulo the period, between plus and minus half of it."""
    return (value + period / 2) % period - period / 2


# Times that run, forwards or backwards, whatever they count from: `5 min`, `Uptime: 3 h 20 min`, a clock that is wrong.
#
# By two polls alone anything that went up by one looks so, so that they are known only by a row of changes.

_UNITS: dict[int, str] = {
    1: (
        r"s|secs?|seconds?|sek|sekunden?|secondes?|seg|segundos?"
        r"|second[oi]|seconden?|sekund[aęy]?|с|сек|секунд[аыу]?|秒|초"
    ),
    60: (
        r"m|mins?|minutes?|minuten?|mn|minutos?"
        r"|minut[oiaęy]?|minuut|м|мин|минут[аыу]?|хв|分鐘?|分钟?|분"
    ),
    3600: (
        r"h|hrs?|hours?|std|stunden?|heures?|horas?|or[ae]"
        r"|uur|uren|u|godz|godzin[aęy]?|ч|час(?:а|ов)?|時間|小时|小時|시간"
    ),
    86_400: (
        r"d|days?|tag(?:en?)?|jours?|j|d[ií]as?"
        r"|giorn[oi]|g|dag(?:en)?|dni|dzień|дн|день|дня|дней|日間?|天|일"
    ),
}
_RUNNING = "|".join(
    [
        r"(?<![\d:.,])(?P<hours>\d{1,4}):(?P<minutes>[0-5]\d)(?::(?P<seconds>[0-5]\d))?(?![\d:])",
        *(rf"\d(?<![\w.,]\d)(?P<n{size}>\d{{0,5}}+) ?(?:{units})(?![^\W\d_])" for size, units in _UNITS.items()),
    ]
)
_SLACK_SECONDS = 2.0


def follows_time(before: str, after: str, elapsed: float | None) -> bool:
    """Returns whether two lines, read so many seconds after each other, differ only in a time that went on by that.

    None: by whatever.
    """
    if max(len(before), len(after)) > _LONGEST_LINE or before == after or _names_a_thing(after):
        return False
    pattern = compiled(_RUNNING)
    if pattern.sub(_NAME, before) != pattern.sub(_NAME, after):
        return False
    (former, size), (says, other_size) = _running(before), _running(after)
    moved, most = says - former, max(size, other_size) + _SLACK_SECONDS
    if elapsed is None or moved == 0:
        return moved != 0
    return any(abs(_near_zero(way - elapsed, period)) < most for way in (moved, -moved) for period in _PERIODS)


_PERIODS = (_HALF_DAY, 1 << 40)
"""Of times of day, and of times since something."""


def _running(line: str) -> tuple[float, int]:
    """Returns the sum of the times of a line, s, and the smallest of their units."""
    total, smallest = 0.0, 86_400
    for match in compiled(_RUNNING).finditer(line):
        if match["hours"]:
            total += int(match["hours"]) * 3600 + int(match["minutes"]) * 60 + int(match["seconds"] or 0)
            smallest = min(smallest, 1 if match["seconds"] else 60)
            continue
        size = next(size for size in _UNITS if match[f"n{size}"] is not None)
        total += int(re.match(r"\d+", match[0])[0]) * size  # type: ignore[index]
        smallest = min(smallest, size)
    return total, smallest
