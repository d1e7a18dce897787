"""Reads what other programs have been told to watch, and says what of it can be carried over."""
