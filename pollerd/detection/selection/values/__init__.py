"""Values: numbers, prices, dates and texts read out of strings: a value or a problem, never a guess.

`compile_value_format` checks a definition, `read_value` reads texts by it. Babel (CLDR's data) is loaded only by
definitions with a locale, and by a document's language where that decides what an ambiguous number is. Time zones come
from the system or from the package tzdata.
"""
