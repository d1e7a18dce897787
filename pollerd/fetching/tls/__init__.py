"""TLS contexts and session resumption."""
