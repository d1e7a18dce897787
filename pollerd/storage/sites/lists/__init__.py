"""Lists of sites: words, filters, orders and cursors, what is written for them, marks of deletion."""
