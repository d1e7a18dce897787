"""Rules, channels and deliveries over REST."""
