"""Commands of rules, channels and deliveries of a running daemon."""
