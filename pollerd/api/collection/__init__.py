"""The focused crawler's collection."""
