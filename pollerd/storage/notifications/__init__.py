"""Channels, rules, the outbox and the delivery log."""
