"""Local times: the instants that they stand for, and which sites are closed by their windows now."""
