"""`pollerd run`: the daemon."""
