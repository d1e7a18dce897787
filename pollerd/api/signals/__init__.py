"""Signal sources over REST, and reports of changes."""
