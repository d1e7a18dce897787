"""Routes of users, sessions and tokens."""
