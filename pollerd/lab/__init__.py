"""Simulated environments, and the papers' experiments in them: a daemon never loads it."""
