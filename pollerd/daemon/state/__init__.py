"""What the running daemon knows of sites, hosts and its own health."""
