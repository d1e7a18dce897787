"""Hosts of one node that are lent to requests of others, where redirects lead from partition to partition."""
