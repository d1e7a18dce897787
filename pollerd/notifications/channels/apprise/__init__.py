"""The services of Apprise, each channel in a process of its own."""
