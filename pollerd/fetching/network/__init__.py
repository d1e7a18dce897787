"""Names, proxies, and the guard that every connection passes."""
