"""Expressions of selections: patterns, CSS, XPath and JSONPath, checked when set and bounded when used."""
