"""Ephemeral content ([D], [E]): items lose their interest while they wait to be found."""
