"""Users, their sessions, and tokens made while the daemon runs."""
