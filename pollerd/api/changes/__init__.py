"""Changes: list, differences, Atom feed and event stream."""
