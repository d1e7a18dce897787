"""Sentences of the pages, as values: pure functions of numbers and states, tested without a page."""
