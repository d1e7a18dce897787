"""Rules: who is told of what. Their settings, which events they match, when a failing site is told of. Pure."""
