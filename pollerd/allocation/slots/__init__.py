"""Arrays over slots: who is in use, in what order equals come, how learned state becomes bytes."""
