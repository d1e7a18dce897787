"""Posts whose receiver knows repeats."""
