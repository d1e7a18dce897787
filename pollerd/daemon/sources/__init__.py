"""Reads sources of sites, and keeps the sites in step with them."""
