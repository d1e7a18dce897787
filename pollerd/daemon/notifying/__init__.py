"""Notifying: puts rules and channels in force, runs the delivery, and tells of what concerns the whole daemon."""
