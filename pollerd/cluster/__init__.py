"""Several nodes on one database: to which partition a host belongs, and which node holds how many. Pure."""
