"""What is no noise however often it comes and goes: states of availability and services, versions, prices, dates."""

from __future__ import annotations

import re

from pollerd.detection.noise.forms import compiled
from pollerd.detection.noise.templates import TokenKind, tokens

_LONGEST = 16 * 1024
_WORDS = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_STATES = (
    r"in stock|out of stock|sold ?out|available|availability|back ?order|pre-?order|low stock|only \d+ left|\d+ left"
    r"|operational|outage|degraded|disruption|incident|maintenance|resolved|investigating|offline|\bdown\b|unreachable"
    r"|healthy|failing|failed|cancel|delayed|on time|discontinued|auf lager|vorrätig|verfügbar|lieferbar|ausverkauft"
    r"|vergriffen|gestört|störung|betriebsbereit|wartung|ausfall|verspätet|fällt aus|en stock|rupture|épuisé|disponib"
    r"|opérationnel|panne|annulé|retardé|agotad|existencias|operativ|caíd[oa]|fuera de servicio|mantenimiento|esaurit"
    r"|guasto|manutenzione|annullat|esgotad|indisponív|disponív"
    r"|em estoque|fora do ar|manutenção|op voorraad|uitverkocht"
    r"|beschikbaar|leverbaar|storing|onderhoud|dostępn|wyprzedan|w magazynie|na stanie|awaria|przerwa|konserwac"
    r"|в наличии|нет в продаже|распродан|доступ|сбой|не работает"
    r"|работает|обслуживани|отмен|задерж|有货|有貨|无货|無貨|缺货|缺貨"
    r"|售罄|现货|現貨|在庫|売り切れ|品切れ|完売|入荷|障害|稼働|停止|メンテナンス|故障|正常|维护|維護|재고|품절|매진|장애|점검"
)
_SHORT_NAMES = """
    up down on off ok open closed yes no active inactive online offline running stopped enabled disabled passing pass
    fail error pending done live free busy full empty new old stock geöffnet geschlossen offen zu ja nein frei belegt
    ouvert fermé oui non libre abierto cerrado sí aperto chiuso sì libero aberto fechado sim não gesloten vrij
    otwarte zamknięte tak nie открыто закрыто да нет свободно занято
    営業中 閉店 営業 休業 开 关 营业 停业 有 无 無
"""
_SHORT_STATES = frozenset(_SHORT_NAMES.split())
"""States only where a place says hardly anything else."""
_SHORT_WORDS, _SENTENCE_WORDS = 4, 12
_PRICE_OR_VERSION = (
    r"[€$£¥₽₹₩₺₴₫฿]|(?<![^\W\d_])(?:eur|usd|gbp|chf|jpy|cny|pln|rub|sek|nok|dkk|czk|brl|zł|руб|kr|円|元|원)(?![^\W\d_])"
    r"|(?<!\d)\d+[.,]\d\d(?!\d)|\d+\.\d+\.\d+|(?<!\w)v ?\d|(?<!\w)(?:version|release|build|rev|ver)\b"
)


def may_alternate(state: bytes, other: bytes) -> bool:
    """Returns whether two texts of one place may be noise because the place alternates between them.

    False if what differs is a state, or if either is a price or a version, or has another date than the other.
    """
    text, other_text = state.decode("utf-8", "replace"), other.decode("utf-8", "replace")
    if max(len(state), len(other)) > _LONGEST:
        return True
    if any(compiled(_PRICE_OR_VERSION).search(side) for side in (text, other_text) if _has_digit(side)):
        return False
    if _dates(state) != _dates(other):
        return False
    words, other_words = _words(text), _words(other_text)
    longest = max(len(words), len(other_words))
    if longest <= _SHORT_WORDS and not _SHORT_STATES.isdisjoint({*words} ^ {*other_words}):
        return False
    states, other_states = _states(text), _states(other_text)
    if longest <= _SENTENCE_WORDS and (states or other_states):  # `not available` has the state of `available`
        return False
    return states == other_states


def names_price_or_version(text: str) -> bool:
    """Returns whether a text seems to name a price or a version."""
    return compiled(_PRICE_OR_VERSION).search(text) is not None


def _has_digit(text: str) -> bool:
    return any(map(str.isdigit, text))


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(text)]


def _states(text: str) -> list[str]:
    return [word.lower() for word in compiled(_STATES).findall(text)]


def _dates(text: bytes) -> list[bytes]:
    """Returns the dates of a text; times of day alone are none."""
    moments = [token.text for token in tokens(text) if token.kind is TokenKind.MOMENT]
    return [moment for moment in moments if not re.fullmatch(rb"[\d:. apmAPM]+", moment) or b"." in moment]
