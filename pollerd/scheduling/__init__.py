"""Decides when to poll: site and host tables, politeness, backoff, choice. Pure: `now` and `rng` are arguments."""
