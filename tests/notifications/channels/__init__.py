"""Channels, each against a real server on loopback."""
