"""Learned Whittle index: estimates rates from polls, and chooses the most valuable polls."""
