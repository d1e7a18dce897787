"""Extraction from pages: links, feeds, directives, relevance."""
