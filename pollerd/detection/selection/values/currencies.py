"""Currencies next to a number: codes and signs."""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

from pollerd.detection.selection.values import cldr
from pollerd.detection.selection.values.cldr import is_cased

# Codes of currencies that are money today (ISO 4217), and the signs by which their countries write them (CLDR 48).

CODES = frozenset(
    """
    AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CLP CNY
    COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG HUF IDR ILS
    INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP
    MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR
    SDG SEK SGD SHP SLE SOS SRD SSP STN SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU UZS VES VND VUV WST
    XAF XCD XCG XOF XPF YER ZAR ZMW ZWG
    """.split()  # noqa: SIM905 - a list would be a page long
)

SIGNS = {
    "$": "ARS AUD BBD BMD BND BSD BZD CAD CLP COP CUP FJD GYD JMD KYD LRD MXN NAD NZD SBD SGD SRD TTD TWD USD UYU XCD",
    "$US": "USD",
    "A$": "AUD",
    "AU$": "AUD",
    "Afl.": "AWG",
    "B/.": "PAB",
    "Br": "BYN ETB",
    "Bs.S": "VES",
    "C$": "NIO",
    "CA$": "CAD",
    "CFPF": "XPF",
    "CN¥": "CNY",
    "EC$": "XCD",
    "EURO": "EUR",
    "Euro": "EUR",
    "Euros": "EUR",
    "FBu": "BIF",
    "FCFA": "XAF",
    "FCFP": "XPF",
    "Fdj": "DJF",
    "Fr.": "CHF",
    "Ft": "HUF",
    "F\u202fCFA": "XOF",
    "GH₵": "GHS",
    "Gs.": "PYG",
    "HK$": "HKD",
    "KSh": "KES",
    "Ksh": "KES",
    "Kz": "AOA",
    "Kč": "CZK",
    "Kčs": "CZK",
    "Lei": "MDL RON",
    "Lekë": "ALL",
    "MOP$": "MOP",
    "MX$": "MXN",
    "NT$": "TWD",
    "NZ$": "NZD",
    "R$": "BRL",
    "RD$": "DOP",
    "RM": "MYR",
    "Rp": "IDR",
    "Rs": "INR LKR MUR NPR PKR",
    "Rs.": "INR LKR MUR NPR PKR",
    "S$": "SGD",
    "S/": "PEN",
    "SFr.": "CHF",
    "T$": "TOP",
    "TL": "TRY",
    "TSh": "TZS",
    "U$S": "USD",
    "US$": "USD",
    "USh": "UGX",
    "WS$": "WST",
    "euro": "EUR",
    "euros": "EUR",
    "kr": "DKK ISK NOK SEK",
    "kr.": "DKK ISK NOK SEK",
    "lei": "MDL RON",
    "soʻm": "UZS",
    "zł": "PLN",
    "£": "EGP FKP GBP GIP SHP SSP",
    "¥": "CNY JPY",
    "грн": "UAH",
    "лв": "BGN",
    "лв.": "BGN",
    "руб": "RUB",
    "руб.": "RUB",
    "сўм": "UZS",
    "֏": "AMD",
    "؋": "AFN",
    "أ.م.": "MRU",
    "ج.س.": "SDG",
    "ج.م.": "EGP",
    "د.أ.": "JOD",
    "د.إ.": "AED",
    "د.ب.": "BHD",
    "د.ت.": "TND",
    "د.ج.": "DZD",
    "د.ع.": "IQD",
    "د.ك.": "KWD",
    "د.ل.": "LYD",
    "د.م.": "MAD",
    "ر.س.": "SAR",
    "ر.ع.": "OMR",
    "ر.ق.": "QAR",
    "ر.ي.": "YER",
    "ریال": "IRR",
    "ل.س.": "SYP",
    "ل.ل.": "LBP",
    "ރ.": "MVR",
    "नेरू": "NPR",
    "৳": "BDT",
    "රු.": "LKR",
    "฿": "THB",
    "ብር": "ETB",
    "៛": "KHR",
    "₡": "CRC",
    "₦": "NGN",
    "₩": "KRW",
    "₪": "ILS",
    "₫": "VND",
    "€": "EUR",
    "₭": "LAK",
    "₮": "MNT",
    "₱": "PHP",
    "₲": "PYG",
    "₴": "UAH",
    "₵": "GHS",
    "₸": "KZT",
    "₹": "INR",
    "₺": "TRY",
    "₼": "AZN",
    "₽": "RUB",
    "₾": "GEL",
    "元": "CNY",
    "円": "JPY",
    "원": "KRW",
    "﷼": "IRR OMR QAR SAR YER",
}
"""Each sign with the codes that it can mean, parted by spaces. Signs that are also common words or units ("den", "KM",
single letters) are recognised only where the locale is given and writes them."""

CODES_LIKE_WORDS = frozenset({"ALL", "BOB", "COP", "CUP", "GEL", "MAD", "MOP", "PEN", "SOS", "TOP"})
"""Read as a currency only where the format names it."""

MINOR_SIGNS = {"¢": "", "ct": "EUR", "cts": "EUR", "Cent": "EUR", "Cents": "EUR", "cent": "", "cents": "", "p": "GBP"}
"""Signs of a hundredth, with the code that they mean; empty: of several currencies."""


_REACH = 16
_PENCE = "p"


class CurrencySign(msgspec.Struct, frozen=True):
    """A sign or code where it stands in a text.

    `codes`: what it can mean, empty for any; `minor`: of a hundredth; `gap`: spaces between it and the number.
    """

    sign: str
    codes: frozenset[str]
    minor: bool
    start: int
    end: int
    gap: int


class CurrencyFinder:
    """Finds the currency beside a number."""

    def __init__(self, locale: str | None, currency: str | None) -> None:
        self._own = {} if locale is None else cldr.own_currency_signs(locale)
        codes = {code: frozenset({code}) for code in CODES if code not in CODES_LIKE_WORDS or code == currency}
        signs = {sign: frozenset(meant.split()) for sign, meant in SIGNS.items()}
        own = {sign: frozenset({code}) | signs.get(sign, frozenset()) for sign, code in self._own.items()}
        self._whole = {**codes, **signs, **own}
        self._minor = {sign: frozenset(meant.split()) for sign, meant in MINOR_SIGNS.items()}
        self._before = re.compile(f"(?:{_alternatives(self._whole)})(?P<gap>[ \u202f]?)$")
        self._after = re.compile(f"(?P<gap>[ \u202f]?)(?:{_alternatives({**self._whole, **self._minor})})")

    def before(self, text: str, end: int) -> CurrencySign | None:
        """Returns the currency that ends before position `end`, a space between at most."""
        start = max(0, end - _REACH)
        match = self._before.search(text[start:end])
        if match is None:
            return None
        begin = start + match.start()
        sign = match[0][: len(match[0]) - len(match["gap"])]
        if begin and is_cased(sign[0]) and is_cased(text[begin - 1]):
            return None
        return CurrencySign(sign, self._whole[sign], False, begin, begin + len(sign), len(match["gap"]))

    def after(self, text: str, start: int) -> CurrencySign | None:
        """Returns the currency that begins at position `start`, a space between at most."""
        match = self._after.match(text[start : start + _REACH])
        if match is None:
            return None
        gap = len(match["gap"])
        sign, end = match[0][gap:], start + match.end()
        if is_cased(sign[-1]) and is_cased(text[end : end + 1] or " "):
            return None
        if sign == _PENCE and gap:
            return None
        minor = sign in self._minor and sign not in self._whole
        codes = self._minor[sign] if minor else self._whole[sign]
        return CurrencySign(sign, codes, minor, start + gap, end, gap)

    def is_sign(self, text: str) -> bool:
        """Returns whether the text is a currency and nothing else."""
        return text in self._whole

    def name(self, sign: str, codes: frozenset[str]) -> str:
        """Returns the code of a sign that can mean `codes`; the sign itself if it can mean several."""
        if len(codes) == 1:
            return next(iter(codes))
        return self._own.get(sign, sign)


@lru_cache(maxsize=64)
def finder_for(locale: str | None, currency: str | None) -> CurrencyFinder:
    """Returns the finder of a format's locale and currency."""
    return CurrencyFinder(locale, currency)


def _alternatives(signs: dict[str, frozenset[str]]) -> str:
    return "|".join(re.escape(sign) for sign in sorted(signs, key=len, reverse=True))
