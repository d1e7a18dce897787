"""Client of a running daemon's API."""
