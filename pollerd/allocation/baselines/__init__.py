"""Policies that learn nothing, or only rates: baselines for the others."""
