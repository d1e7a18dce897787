"""Policies that learn nothing, or rates alone: yardsticks for the others."""
