"""Plots of the pages as SVG, drawn by pure functions of numbers."""
