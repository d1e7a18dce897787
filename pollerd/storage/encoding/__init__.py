"""Encodes values as columns: text, secrets, compression, cursors."""
