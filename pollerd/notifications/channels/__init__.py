"""Channels: the ways in which messages leave."""
