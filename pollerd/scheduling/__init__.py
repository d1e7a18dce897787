"""When a site may be polled: site and host tables, politeness, backoff, choice. Pure: `now` and `rng` are arguments."""
