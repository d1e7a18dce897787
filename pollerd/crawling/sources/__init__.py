"""Sources of sites: what a sitemap or a feed lists, and what follows for the sites that it brought."""
