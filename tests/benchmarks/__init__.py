"""Tests of what is measured beside other programs."""
