"""Engines, locks, schema, migrations and statements."""
