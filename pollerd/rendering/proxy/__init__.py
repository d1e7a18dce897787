"""The forward proxy that all connections of rendered pages go through."""
