"""Jobs: one thing that is done to many sites."""
