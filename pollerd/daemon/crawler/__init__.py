"""The focused crawler in the live daemon."""
