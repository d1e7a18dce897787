"""Change detection on response bodies. Pure: no I/O, no clock, no randomness.

`detect` compares a response with a site's `Baseline`; `summarise` describes a change in one line.
"""
