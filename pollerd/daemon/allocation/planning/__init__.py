"""Answers what a budget would find, and what budget a goal needs."""
