"""Proof before a change counts: a second poll shows what of a difference is noise."""
