"""From choosing a site to its response: budget, robots.txt, redirects, outages."""
