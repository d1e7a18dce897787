"""Rules say who is told of what; channels tell it; the outbox holds what is still to be told."""
