"""The focused crawler: an optional room, loaded if a topic is set."""
