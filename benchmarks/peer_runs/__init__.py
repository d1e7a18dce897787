"""Runs pollerd and other programs on the same replayed pages, and compares what they report with what happened."""
