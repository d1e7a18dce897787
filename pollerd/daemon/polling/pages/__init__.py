"""What a poll does with a page besides fetching it: a browser renders it, selections read it."""
