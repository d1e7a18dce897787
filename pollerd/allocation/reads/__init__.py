"""What reads of changes tell of the half-life of interest: which change was read, statistics, estimate."""
