"""Whittle index for ephemeral content and its LSPE(0) learner."""
