"""Masks: the parts of a page that differ at every fetch, learned from repeat fetches, removed before comparison."""
