"""`pollerd sites`: the sites of a running daemon."""
