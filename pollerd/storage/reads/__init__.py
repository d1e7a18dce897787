"""Reads of changes: what is kept of them, and the half-lives that were learned from them."""
