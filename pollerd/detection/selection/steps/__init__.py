"""The steps of a selection, a file for each kind of content."""
