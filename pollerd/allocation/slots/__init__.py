"""Arrays over slots: slots in use, order of ties, and learned state as bytes."""
