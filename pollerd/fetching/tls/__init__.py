"""TLS contexts, and sessions that are resumed."""
