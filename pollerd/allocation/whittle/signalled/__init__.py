"""The index of pages that sources of signals speak for, its bounds, and the index of the sources that are polled."""
