"""Politeness to hosts: spacing, robots.txt, backoff, and outage detection of our own link."""
