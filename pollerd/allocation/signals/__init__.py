"""What sources of signals say about pages: formulas, learned quality, and the value of reading a source."""
