"""What hosts are owed: spacing, robots.txt, backoff, and no blame for an outage of our own link."""
