"""Simulated environments, and the papers' experiments in them."""
