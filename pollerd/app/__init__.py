"""The application layer between commands and daemon: settings, lists, start, reload."""
