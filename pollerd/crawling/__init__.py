"""The focused crawler: links of a page, its relevance to a topic, what to ask for next, how many at once. Pure."""
