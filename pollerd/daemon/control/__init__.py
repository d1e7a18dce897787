"""Controls and views of the running daemon for the API and the command line."""
