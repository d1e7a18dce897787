"""Several nodes on one database."""
