"""Conditions: whether a detected change matters, decided on contents and values that were read from them.

`parse_conditions` checks a document, `Condition.evaluate` judges a change; `parse_least` reads the least size of one.
"""
