"""Calls to a running daemon's API."""
