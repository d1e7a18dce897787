"""Announcing: which events the rules tell of, and the notices of them, written with the polls that found them."""
