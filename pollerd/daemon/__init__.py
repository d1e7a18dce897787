"""The live loop: chooses sites, polls them, detects changes, learns and commits."""
