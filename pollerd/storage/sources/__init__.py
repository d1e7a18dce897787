"""Sources of sites in the database: sitemaps and feeds, and which sites they list."""
