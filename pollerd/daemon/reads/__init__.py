"""Reads of changes that programs report, and the half-lives of interest that are learned from them."""
