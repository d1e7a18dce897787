"""pollerd: a polling daemon with one budget of polls per second, learned to be spent where it finds most."""

__version__ = "0.1.0"
