"""What of a page counts: selections, their values and conditions. Pure: no I/O, no clock, no randomness."""
