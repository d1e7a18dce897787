"""Who may call: users and tokens, kept in the database."""
