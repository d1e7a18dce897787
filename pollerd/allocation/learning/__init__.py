"""What the learning allocators share: rate grid, likelihoods, prior, forgetting."""
