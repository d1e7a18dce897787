"""What the web pages show of polls and changes: expected and found, what was seen, a site's polls as columns."""
