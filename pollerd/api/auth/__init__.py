"""Authentication: tokens, wrong tokens, and calls from other sites' pages."""
