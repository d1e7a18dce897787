"""Delivery: takes what is due from the outbox, builds messages, sends them, and keeps what became of them."""
