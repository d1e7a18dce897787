"""Settings of tags over REST."""
