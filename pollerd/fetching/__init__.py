"""Fetching: conditional GETs of pages and robots.txt through the guard, returned as values. Only it uses the client."""
