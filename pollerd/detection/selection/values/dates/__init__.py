"""Dates: patterns, instants, time zones."""
