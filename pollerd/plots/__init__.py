"""Draws plots of values over time as SVG and as text. Pure."""
