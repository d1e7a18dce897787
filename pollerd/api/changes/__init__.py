"""Changes, their differences, the Atom feed and the event stream."""
