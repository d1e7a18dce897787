"""From a response to what is stored: noise, status, learning, commit."""
