"""The clock, the lag of the event loop, worker processes."""
