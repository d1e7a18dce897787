"""From a response to the database: noise, status, learning, commit."""
