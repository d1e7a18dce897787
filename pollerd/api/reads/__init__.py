"""Reads of changes over REST."""
