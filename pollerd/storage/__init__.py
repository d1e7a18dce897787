"""Persistent state: SQLite or PostgreSQL behind one `Store`."""
