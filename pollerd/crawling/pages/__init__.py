"""What a page says to a crawler: links, feeds, directives, relevance."""
