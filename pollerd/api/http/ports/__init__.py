"""The API's interface to the running daemon, by subject; its control object implements it without depending on it."""
