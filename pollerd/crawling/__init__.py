"""Focused crawler: extraction of links, relevance to a topic, choice of requests, concurrency. Pure."""
