"""What the outside may do to the running daemon, and see of it."""
