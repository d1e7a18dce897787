"""Shared by commands: options, output, progress, lazy loading."""
