"""The focused crawler's tables."""
