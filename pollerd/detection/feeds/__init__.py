"""What a feed shows, and what its items say of its rate."""
