"""Jobs: what is done to many sites, and how it is undone."""
