"""changedetection.io: its backup, its older file of watches, and its API."""
