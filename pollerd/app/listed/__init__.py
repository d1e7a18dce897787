"""Takes in what the list of sites says: sites, tags, sources, channels and rules."""
