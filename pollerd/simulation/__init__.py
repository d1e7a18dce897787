"""Simulated environments, and the experiments of the papers run in them."""
