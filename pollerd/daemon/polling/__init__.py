"""From the choice of a site to its response: budget, robots.txt, redirects, outages."""
