"""Signal sources in the database, and what they said."""
