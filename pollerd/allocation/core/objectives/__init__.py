"""Objectives by name, and those about how soon changes are found."""
