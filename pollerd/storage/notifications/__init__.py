"""Channels, rules and the outbox in the database."""
