"""The topic robot: what a page links to, how near it is to a topic, what to ask for next, how many at once. Pure."""
