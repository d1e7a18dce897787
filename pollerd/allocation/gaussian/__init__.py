"""Gaussian processes on a finite index set, and functions drawn from them ([B] 4.4 and 6)."""
