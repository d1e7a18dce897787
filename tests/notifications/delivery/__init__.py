"""Delivery: what is sent when, over an outbox in a database."""
