"""Polls, changes, contents: committed, read, retained."""
