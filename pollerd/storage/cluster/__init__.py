"""Several nodes on one database: their sessions, the locks that they hold, partitions, and grants of one budget."""
