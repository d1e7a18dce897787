"""The running daemon's state of sites, hosts and its own health."""
