"""The focused crawler: an optional room, loaded where a topic is set."""
