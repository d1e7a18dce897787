"""Polls, changes, contents: commit, reading, retention."""
