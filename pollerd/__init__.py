"""pollerd: a polling daemon that learns to spend one budget of polls per second where it finds most changes."""

__version__ = "0.1.0"
